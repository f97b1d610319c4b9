"""A compaction in a process of its own that stops itself (SIGSTOP) at a named moment, like a frozen machine."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from tests.builders.control import AT_ONCE
from tests.builders.engines import Meddling
from tidyberg.app import build_control
from tidyberg.catalog import metadata_file
from tidyberg.control import uncommitted_files
from tidyberg.control.journal import JobRecord
from tidyberg.control.recovery import Recovery
from tidyberg.control.round import Round
from tidyberg.errors import EngineError
from tidyberg.model.table import TableRef
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

LEASE_MS = 600

# What is patched, whether the process stops before or after it, and at which of its calls.
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
            control.open_engine = lambda: Meddling(fail)
        stop_at(moment, Path(marker))
        control.compact(ref, replace(AT_ONCE, commit_every=commit_every))


def recover(settings: dict[str, Any], moment: str, marker: str) -> None:
    with build_control(Settings.model_validate(settings)) as control:
        control.lease_ms = LEASE_MS
        stop_at(moment, Path(marker))
        control.recover()


def fail() -> None:
    raise EngineError("It failed.")


@contextmanager
def stopped(target: Callable[..., None], *args: Any, marker: Path) -> Iterator[multiprocessing.process.BaseProcess]:
    """Yields a process that has stopped itself and lost its lease. Continues it in the end, and waits for it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.builders.stopping", "pyiceberg.io.pyarrow"])
    process = context.Process(target=target, args=args)
    process.start()
    assert process.pid is not None
    try:
        while not (marker.exists() and state_of(process.pid) == "T"):
            assert process.is_alive(), "it ended before it was stopped"
            time.sleep(0.02)
        time.sleep(LEASE_MS / 1000 + 0.05)
        yield process
    finally:
        if process.is_alive():
            os.kill(process.pid, signal.SIGCONT)
        process.join(60)
        assert process.exitcode is not None, "it goes on for ever"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def settings_of(warehouse: Warehouse) -> dict[str, Any]:
    return {
        "engine": "inline",
        "catalog": {"name": warehouse.name, **warehouse.properties},
        "commit": {"retries": 4, "min_wait_ms": 1, "max_wait_ms": 20},
        "store": {"path": str(warehouse.directory / "jobs.db")},
    }
