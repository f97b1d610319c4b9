"""A compaction in a process of its own that stops itself (SIGSTOP) at a named moment, as a frozen machine would."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from tidyberg.app import build_control
from tidyberg.catalog import metadata_file
from tidyberg.control import uncommitted_files
from tidyberg.control.journal import JobRecord
from tidyberg.control.recovery import Recovery
from tidyberg.control.round import Round
from tidyberg.errors import EngineError
from tidyberg.execute.engine import Results
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.table import TableRef
from tidyberg.settings.settings import Settings

LEASE_MS = 600
OPTIONS = PlanOptions(strategy=Strategy.FULL, min_input_files=2)

# The place that is patched, whether the stop comes before or after it, and at which of its calls.
MOMENTS: dict[str, tuple[Any, str, str, int]] = {
    "before the plan is saved": (JobRecord, "save_plan", "before", 1),
    "before the first group is taken": (Round, "_take", "before", 1),
    "while groups are rewritten": (Round, "_take", "after", 2),
    "before the commit": (Round, "_commit_waiting", "before", 1),
    "after a metadata file was announced": (JobRecord, "about_to_write", "after", 1),
    "after a second metadata file was announced": (JobRecord, "about_to_write", "after", 2),
    "before the lease is checked for the commit": (JobRecord, "about_to_commit", "before", 1),
    "after the lease was checked for the commit": (JobRecord, "about_to_commit", "after", 1),
    "after the commit": (Round, "_publish", "after", 1),
    "between two commits": (Round, "_commit_waiting", "before", 2),
    "after the lease was checked for the second commit": (JobRecord, "about_to_commit", "after", 2),
    "between metadata file and swap": (metadata_file, "write_document", "after", 1),
    "after the swap": (SqlCatalog, "commit_table", "after", 1),
    "after the server's answer": (RestCatalog, "commit_table", "after", 1),
    "before what failed is undone": (JobRecord, "may_delete", "before", 1),
    "while what failed is undone": (uncommitted_files, "existing_outputs", "after", 1),
    "while a dead job is recovered": (Recovery, "examine", "after", 1),
    "before a dead job's files are removed": (Recovery, "taken_over", "after", 1),
}


def stop_at(moment: str, marker: Path) -> None:
    owner, name, when, call = MOMENTS[moment]
    original, calls = getattr(owner, name), [0]

    def stopping(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        is_due = calls[0] == call
        if is_due and when == "before":
            stop(marker)
        result = original(*args, **kwargs)
        if is_due and when == "after":
            stop(marker)
        return result

    patch.object(owner, name, stopping).start()


def stop(marker: Path) -> None:
    marker.touch()
    os.kill(os.getpid(), signal.SIGSTOP)


def compact(settings: dict[str, Any], ref: TableRef, moment: str, marker: str, commit_every: int | None) -> None:
    with build_control(Settings.model_validate(settings)) as control:
        control.lease_ms = LEASE_MS
        if "failed" in moment:
            control.open_engine = lambda: FailingLate()
        stop_at(moment, Path(marker))
        control.compact(ref, replace(OPTIONS, commit_every=commit_every))


def recover(settings: dict[str, Any], moment: str, marker: str) -> None:
    with build_control(Settings.model_validate(settings)) as control:
        control.lease_ms = LEASE_MS
        stop_at(moment, Path(marker))
        control.recover()


class FailingLate(InlineEngine):
    """Fails when everything is rewritten."""

    def run(self, *args: Any, **kwargs: Any) -> Results:
        yield from super().run(*args, **kwargs)
        raise EngineError("It failed.")
