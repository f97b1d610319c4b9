"""Writes the events of a run to the queue, for clients that watch the job. Progress at most twice a second."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from tidyberg.errors import TidybergError
from tidyberg.model.job import Progress
from tidyberg.model.report import Event, GroupFinished, Notice, StageStarted
from tidyberg.record.queue import JobQueue
from tidyberg.redact import redact_text

PROGRESS_SECONDS = 0.5
MOST_CHARACTERS = 2000  # per message


@dataclass
class JobEventWriter:
    """An EventSink. A failed write is ignored, because events only inform."""

    queue: JobQueue
    job_id: str
    now_ms: Callable[[], int]
    is_lost: Callable[[], bool]  # then another worker writes the events
    clock: Callable[[], float] = time.monotonic
    scrub: Callable[[str], str] = redact_text  # I12
    _held_back: Progress | None = None
    _written: float = field(default=float("-inf"))

    def __call__(self, event: Event) -> None:
        if isinstance(event, GroupFinished):
            self._held_back = event.progress
            if self.clock() - self._written >= PROGRESS_SECONDS:
                self.flush()
            return
        self.flush()
        if isinstance(event, StageStarted):
            self.write("stage", {"stage": event.stage.value, "message": event.message})
        elif isinstance(event, Notice):
            self.write("notice", {"level": event.level, "message": self.scrub(event.message)[:MOST_CHARACTERS]})

    def flush(self) -> None:
        if self._held_back is not None:
            progress, self._held_back = self._held_back, None
            self._written = self.clock()
            self.write("progress", asdict(progress))

    def status(self, status: str, **more: Any) -> None:
        self.flush()
        self.write("status", {"status": status, **{key: value for key, value in more.items() if value is not None}})

    def write(self, kind: str, data: Mapping[str, Any]) -> None:
        if not self.is_lost():
            with suppress(TidybergError):
                self.queue.add_event(self.job_id, self.now_ms(), kind, data)
