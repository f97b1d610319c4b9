"""Jobs that die in a process of their own at a chosen point, and jobs that continue them."""

import multiprocessing
import os
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from pyiceberg.catalog.sql import SqlCatalog

from tests.builders import events_table, sales_table, victim
from tests.builders.control import AT_ONCE, make_control
from tests.builders.engines import Meddling, OneAtATime
from tidyberg.catalog import metadata_file
from tidyberg.commit import snapshot as snapshot_module
from tidyberg.commit.publish import Publisher
from tidyberg.control.journal import JobRecord
from tidyberg.control.planner import Planner
from tidyberg.control.progress import RoundProgress
from tidyberg.control.round import Round
from tidyberg.model.job import Job, JobStatus
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.testing import Warehouse


def run_until_dead(target: Callable[..., None], *args: Any) -> None:
    """Runs `target` in a process of its own, and checks that the process killed itself."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=target, args=args)
    process.start()
    process.join()
    assert process.exitcode == 9


def die(*_: Any, **__: Any) -> None:
    os._exit(9)


def die_after(directory: str, method: str, calls: int, options: PlanOptions, verify: VerifyMode) -> None:
    """In a process of its own: compact one group after the other, and be gone after so many calls."""
    owner: Any = next(owner for owner in (Round, RoundProgress, JobRecord) if hasattr(owner, method))
    original, made = getattr(owner, method), []

    def counted(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        made.append(1)
        if len(made) == calls:
            die()
        return result

    patch.object(owner, method, counted).start()
    with Warehouse(directory) as warehouse, make_control(warehouse, OneAtATime()) as control:
        control.compact(sales_table.REF, options, verify=verify)


def kill(
    warehouse: Warehouse,
    method: str = "save_finished",
    calls: int = 3,
    options: PlanOptions = AT_ONCE,
    verify: VerifyMode = VerifyMode.COUNTS,
) -> None:
    run_until_dead(die_after, str(warehouse.directory), method, calls, options, verify)


def go_on(warehouse: Warehouse, options: PlanOptions = AT_ONCE, **more: Any) -> list[int]:
    """Compacts again, and returns the groups that had to be rewritten."""
    verify = more.pop("verify", VerifyMode.COUNTS)
    engine = OneAtATime()
    with make_control(warehouse, engine, **more) as control:
        assert control.compact(sales_table.REF, options, verify=verify).outcome == "committed"
        assert all(job.status.is_final and not job.unresolved for job in control.history(sales_table.REF))
    return engine.rewritten


def die_at(directory: str, point: str) -> None:
    """Compacts, and kills its process at the named point."""
    if point == "planning":
        patch.object(Planner, "observe", die).start()
    elif point == "execution":
        patch.object(victim, "build_engine", lambda _: Meddling(die)).start()
    elif point == "manifests":
        patch.object(snapshot_module, "manifest_list", die).start()
    elif point == "before the commit is sent":
        patch.object(Publisher, "send", die).start()
    elif point == "between metadata file and swap":
        write = metadata_file.write_document

        def write_then_die(*args: Any, **kwargs: Any) -> None:
            write(*args, **kwargs)
            die()

        patch.object(metadata_file, "write_document", write_then_die).start()
    elif point == "after the commit":
        commit = SqlCatalog.commit_table

        def commit_then_die(*args: Any, **kwargs: Any) -> Any:
            commit(*args, **kwargs)
            die()

        patch.object(SqlCatalog, "commit_table", commit_then_die).start()
    victim.compact(directory, "inline")


def dead_job(warehouse: Warehouse, point: str) -> Job:
    run_until_dead(die_at, str(warehouse.directory), point)
    with make_control(warehouse) as control:
        (job,) = control.history(events_table.REF)
    assert job.status is JobStatus.RUNNING
    return job
