"""Progress of a job in the foreground, and how signals stop it."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tidyberg.cli.foreground import Interrupted, run_cancellable, watching
from tidyberg.errors import Cancelled, Conflict
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Progress, Stage
from tidyberg.model.report import Event, GroupFinished, Notice, StageStarted
from tidyberg.testing import Warehouse

EVENTS: tuple[Event, ...] = (
    StageStarted(Stage.OBSERVE, "reading manifests"),
    StageStarted(Stage.EXECUTE),
    GroupFinished(0, "day=1", Progress(groups_completed=1, groups_total=2, files_processed=7)),
    Notice("info", "left over file removed"),
    Notice("warning", "group 1 conflicts [again]"),
    StageStarted(Stage.DONE),
)


def recording(terminal: bool) -> tuple[Console, Callable[[], str]]:
    buffer = io.StringIO()
    return Console(file=buffer, force_terminal=terminal, width=120, highlight=False), buffer.getvalue


def test_without_a_terminal_stages_and_notices_are_lines() -> None:
    console, said = recording(terminal=False)
    with watching(console) as on_event:
        for event in EVENTS:
            on_event(event)
    assert said().splitlines() == [
        "observe: reading manifests", "execute", "info: left over file removed", "warning: group 1 conflicts [again]",
    ]  # fmt: skip


@pytest.mark.parametrize("terminal", [False, True])
def test_a_notice_that_the_result_repeats_is_not_printed_before_it(terminal: bool) -> None:
    console, said = recording(terminal)
    with watching(console) as on_event:
        on_event(Notice("info", "waiting: 4 files", in_result=True))
        on_event(Notice("warning", "the table has a sort order", in_result=True))
    assert "waiting" not in said()
    assert "sort order" not in said()


def test_quiet_warns_of_what_the_result_repeats_too() -> None:
    """A quiet run prints JSON, which no person reads."""
    console, said = recording(terminal=False)
    with watching(console, quiet=True) as on_event:
        on_event(Notice("warning", "the table has a sort order", in_result=True))
    assert said() == "warning: the table has a sort order\n"


def test_quiet_still_warns() -> None:
    console, said = recording(terminal=True)
    with watching(console, quiet=True) as on_event:
        for event in EVENTS:
            on_event(event)
    assert "warning: group 1 conflicts [again]" in said()
    assert "left over" not in said()


def test_terminal_shows_a_bar_and_keeps_notices() -> None:
    console, said = recording(terminal=True)
    with watching(console) as on_event:
        for event in EVENTS:
            on_event(event)
    assert "7 files" in said()
    assert "group 1 conflicts [again]" in said()


def test_results_and_errors_of_the_work_are_returned() -> None:
    console, _ = recording(terminal=False)
    assert run_cancellable(lambda _: 42, console) == 42

    def fail(_: CancelToken) -> None:
        raise Conflict("someone was first")

    with pytest.raises(Conflict, match="someone was first"):
        run_cancellable(fail, console)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_work_and_waits_for_it(number: signal.Signals, status: int) -> None:
    console, said = recording(terminal=False)
    cleaned = threading.Event()

    def work(cancel: CancelToken) -> None:
        os.kill(os.getpid(), number)
        while not cancel.cancelled:
            time.sleep(0.01)
        cleaned.set()
        raise Cancelled("The job was cancelled.")

    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as caught:
        run_cancellable(work, console)
    assert caught.value.status == status
    assert cleaned.is_set()
    assert "cancelling" in said()
    assert signal.getsignal(number) is before


def test_work_that_finishes_after_the_signal_keeps_its_result() -> None:
    console, _ = recording(terminal=False)

    def work(cancel: CancelToken) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        while not cancel.cancelled:
            time.sleep(0.01)
        return "committed"

    assert run_cancellable(work, console) == "committed"


STUBBORN = """
import time
from rich.console import Console
from tidyberg.cli.foreground import run_cancellable
print("ready", flush=True)
run_cancellable(lambda cancel: time.sleep(60), Console(stderr=True))
"""


def test_the_second_signal_ends_the_process_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert b"cancelling" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_during_a_compaction_on_spark_leaves_no_files(config: Path, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("analytics.events")
    before = warehouse.files_on_disk(table)
    command = [sys.executable, "-c", "from tidyberg.cli.main import run; run()", "compact", "analytics.events"]
    with subprocess.Popen(
        [*command, "--engine", "spark", "--config", str(config)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("execute"):
                break
        # To the whole process group with the JVM and the workers, as a terminal does.
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(60) == 130, rest
    assert "Cancelled. Uncommitted files were removed." in rest
    assert "Traceback" not in rest
    assert warehouse.files_on_disk(table) == before
