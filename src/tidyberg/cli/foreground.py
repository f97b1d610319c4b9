"""Runs a job in the foreground, with progress and a clean stop on Ctrl-C or SIGTERM."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tidyberg.cli.formatting import plural, size
from tidyberg.errors import Cancelled
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Stage
from tidyberg.model.report import Event, EventSink, GroupFinished, Notice, StageStarted

T = TypeVar("T")


class Interrupted(Cancelled):
    """A signal cancelled the job, and everything is cleaned up. The exit code is 128 plus the signal number."""

    def __init__(self, number: int) -> None:
        super().__init__("Cancelled. Uncommitted files were removed.")
        self.status = 128 + number


def run_cancellable(work: Callable[[CancelToken], T], console: Console) -> T:
    """Runs `work`. The first Ctrl-C or SIGTERM cancels it and waits, the second ends the process.

    The work runs in its own thread. So the main thread is free for signals, and Spark does not install its own
    handler.
    """
    token = CancelToken()
    outcome: Future[T] = Future()

    def body() -> None:
        try:
            outcome.set_result(work(token))
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            outcome.set_exception(error)

    thread = threading.Thread(target=body, name="tidyberg-job", daemon=True)
    with _signals() as received:
        thread.start()
        is_cancelling = False
        while thread.is_alive():
            thread.join(0.1)
            if received and not is_cancelling:
                is_cancelling = True
                console.print("cancelling: waiting for workers to stop, then cleaning up (press again to stop at once)")
                token.cancel()
    try:
        return outcome.result()
    except Cancelled:
        if received:
            raise Interrupted(received[0]) from None
        raise


@contextmanager
def _signals() -> Iterator[list[int]]:
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if received:
            os._exit(128 + number)  # second signal: `tidyberg recover` cleans up later
        received.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, handle) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def watching(console: Console, *, quiet: bool = False) -> Iterator[EventSink]:
    """Yields a sink for events: a progress bar on a terminal, else a line per stage. Quiet shows only warnings."""
    if quiet or not console.is_terminal:
        yield lambda event: _print_line(console, event, quiet)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=16), TaskProgressColumn(),
               TextColumn("{task.fields[detail]}"), TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=None, detail="")
        yield lambda event: _move_bar(progress, bar, event)


def _print_line(console: Console, event: Event, quiet: bool) -> None:
    if isinstance(event, Notice):
        # A quiet run prints its result as JSON: what a person must see is printed here.
        is_hidden = event.level == "info" if quiet else event.in_result
        if is_hidden:
            return
        console.print(f"{event.level}: {event.message}", markup=False, soft_wrap=True)
    elif isinstance(event, StageStarted) and not quiet and event.stage is not Stage.DONE:
        words = f"{event.stage.value}: {event.message}" if event.message else event.stage.value
        console.print(words, markup=False, soft_wrap=True)


def _move_bar(progress: Progress, bar: TaskID, event: Event) -> None:
    if isinstance(event, StageStarted):
        progress.update(bar, description=event.message or event.stage.value)
    elif isinstance(event, GroupFinished):
        made = event.progress
        detail = f"{plural(made.files_processed, 'file')}, {size(made.bytes_read)}"
        progress.update(bar, total=made.groups_total, completed=made.groups_completed, detail=detail)
    elif not event.in_result:
        style = "yellow" if event.level == "warning" else "dim"
        progress.console.print(event.message, style=style, markup=False)
