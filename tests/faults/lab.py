"""A table with every feature that is reset before each run, and the checks after a run that failed."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from pyiceberg.table import Table

from tests.builders.control import chunks, make_control
from tests.builders.engines import Meddling
from tests.builders.events_table import BY_REGION, REF, SCHEMA, append, data_files, options
from tests.faults.layer import Call, Crash, Kind, Layer, choose
from tests.faults.wires import wired
from tests.seed import SEED
from tidyberg.control.control import Control
from tidyberg.errors import TidybergError
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.job import JobStatus, Owner
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.record.process import is_alive, this_process
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes, delete_rows
from tidyberg.testing.reading import read_rows

PARTITIONS = 3
DEAD = Owner(this_process().host, 2**22 + 1, 1.0)  # no process has this number, so its job counts as dead


def make_table(warehouse: Warehouse, format_version: int, *, has_deletes: bool = True) -> Table:
    """Two partitions of two files, with all kinds of deletes by default, and a third that no job rewrites."""
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION, format_version=format_version)
    append(warehouse, table, [0, 1], "eu", per_commit=2)
    append(warehouse, table, [2, 3], "us", per_commit=2)
    append(warehouse, table, [4], "ap")
    if not has_deletes:
        return table
    eu, us = ([f.path for f in data_files(warehouse, table) if f.partition[0] == region] for region in ("eu", "us"))
    by_position: list[Positions | Vectors] = [Positions({path: [0, 3] for path in eu})]
    by_position += [Vectors({us[0]: [1, 2], us[1]: [4]}) if format_version > 2 else Positions({us[0]: [1, 2]}, True)]
    if format_version > 2:
        by_position[0] = Vectors({path: [0, 3] for path in eu})
    by_key = EqualTo({"note": ["note-1"], "amount": [None]}, us[0]), EqualTo({"id": [5, 17]}, eu[0])
    return commit_deletes(table, *by_position, *by_key)


def rows_of(warehouse: Warehouse, table: Table) -> list[str]:
    """All rows with their lineage, where they have one."""
    table.refresh()
    rows = read_rows(table, table.current_snapshot(), lineage=table.format_version > 2)
    return sorted(repr(tuple(row.values())) for row in rows)


@dataclass
class Outcome:
    """The end of a run, as its caller saw it."""

    result: str | None
    error: BaseException | None
    layer: Layer
    rows: list[str]  # that the table has since

    def check_error(self) -> None:
        if self.error is not None and not self.layer.is_dead:
            assert isinstance(self.error, TidybergError), f"a raw {type(self.error).__name__}: {self.error}"


@dataclass
class Lab:
    """One directory, made once; `restore` puts it back, paths and all."""

    directory: Path
    format_version: int = 2
    how: PlanOptions = field(default_factory=options)
    commits: int = 1  # those of a job that nothing happens to
    has_deletes: bool = True
    on_disk: bool = True  # or elsewhere, as far as tasks can tell
    verify: VerifyMode = VerifyMode.FULL
    live_files: int = PARTITIONS  # of a table that is done: by default a file a partition, and no deletes
    has_writer: bool = False  # whether another one deletes a row while a job rewrites its file

    rows: list[str] = field(default_factory=list)
    files: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        with Warehouse(self._home) as warehouse:
            table = make_table(warehouse, self.format_version, has_deletes=self.has_deletes)
            self.rows = rows_of(warehouse, table)
            self.files = frozenset(warehouse.files_on_disk(table))
            assert self.files == warehouse.referenced_files(table)
        self.keep()

    @property
    def _home(self) -> Path:
        return self.directory / "lab"

    def keep(self) -> None:
        """What is there now is what `restore` puts back."""
        shutil.rmtree(self.directory / "kept", ignore_errors=True)
        shutil.copytree(self._home, self.directory / "kept")

    def restore(self) -> None:
        shutil.rmtree(self._home)
        shutil.copytree(self.directory / "kept", self._home)

    @contextmanager
    def open(self, engine: Engine | None = None) -> Iterator[tuple[Warehouse, Control, SqliteStore]]:
        store = SqliteStore(self._home / "jobs.db", is_alive)
        with Warehouse(self._home) as warehouse:
            try:
                control = make_control(warehouse, engine or InlineEngine(max_parallelism=1), store=store)
                yield warehouse, control, store
            finally:
                store.close()

    def compact(self, layer: Layer | None = None, engine: Engine | None = None) -> Outcome:
        outcome = Outcome(None, None, layer or Layer(), self.rows)
        if self.has_writer:
            engine = Meddling(lambda: self._write(outcome), max_parallelism=1)
        return self.run(lambda control: control.compact(REF, self.how, verify=self.verify).outcome, outcome, engine)

    def recover(self, layer: Layer | None = None) -> Outcome:
        return self.run(lambda control: "; ".join(control.recover()), Outcome(None, None, layer or Layer(), self.rows))

    def run(self, call: Callable[[Control], str], outcome: Outcome, engine: Engine | None = None) -> Outcome:
        """Makes a call that may go wrong, as a process that is gone afterwards."""
        outcome.layer.known = self.files
        with (
            self.open(engine) as (warehouse, control, store),
            patch("tidyberg.control.job.this_process", lambda: DEAD),
            patch("tidyberg.control.held_table.this_process", lambda: DEAD),
            patch("tidyberg.control.dead_jobs.this_process", lambda: DEAD),
            wired(outcome.layer, warehouse.catalog, store, on_disk=self.on_disk),
        ):
            try:
                outcome.result = call(control)
            except (Exception, Crash) as error:  # noqa: BLE001  # whatever it is, the caller judges it
                outcome.error = error
        return outcome

    def _write(self, outcome: Outcome) -> None:
        """By a process of its own, which nothing happens to."""
        with Warehouse(self._home) as warehouse:
            table = warehouse.catalog.load_table("db.events")
            path = next(file.path for file in data_files(warehouse, table) if file.partition[0] == "eu")
            outcome.rows = rows_of(warehouse, delete_rows(table, {path: [8]}))

    def check(self, outcome: Outcome, *, resume: bool = False) -> int:
        """Each chunk committed once or not at all, and tidy after recovery; says how many were.

        With `resume` it is the next run that settles the job, and may go on with what that had finished.
        """
        outcome.check_error()
        with self.open() as (warehouse, control, _):
            table = warehouse.catalog.load_table("db.events")
            assert rows_of(warehouse, table) == outcome.rows, "the table must read right before anything is recovered"
            committed = len(chunks(table))
            assert committed <= self.commits, "committed more than once"
            if outcome.result == "committed":
                assert committed == self.commits, "said to have committed, and had not"
            assert (outcome.result == "partly") <= bool(committed), "said to have committed in part, and had not"
            assert outcome.result != "tidy", "there was something to do"
            if not resume:
                control.recover()
                self._check_tidy(warehouse, table, control)
                assert len(chunks(table)) == committed, "recovery commits nothing"
            result = control.compact(REF, self.how, verify=self.verify)
            is_done = committed == self.commits
            assert result.outcome == ("tidy" if is_done else "committed"), "the next run does what is left to do"
            self._check_tidy(warehouse, table, control)
            if (
                job := next((job for job in control.history(REF) if job.job_id != result.job.job_id), None)
            ) is not None:
                assert (job.status is JobStatus.SUCCEEDED) == bool(committed), f"{job.status} after {committed} commits"
            assert len(warehouse.live_files(table)) == self.live_files, "all is merged that can be"
            assert rows_of(warehouse, table) == outcome.rows
            return committed

    def _check_tidy(self, warehouse: Warehouse, table: Table, control: Control) -> None:
        on_disk, referenced = warehouse.files_on_disk(table), warehouse.referenced_files(table)
        assert not on_disk - referenced, f"leftovers: {on_disk - referenced}"
        assert not referenced - on_disk, "something referenced is gone"
        jobs = control.history(REF, limit=100)
        assert all(job.status.is_final and not job.unresolved for job in jobs), [job.notes for job in jobs]
        assert len(chunks(table)) == len(set(chunks(table))), "a chunk was committed twice"


EVERYTHING = bool(os.environ.get("TEST_LONG"))


def check(lab: Lab, outcome: Outcome, fault: tuple[Call, Kind], *, resume: bool = False) -> int:
    with naming(lab, outcome, fault):
        return lab.check(outcome, resume=resume)


@contextmanager
def naming(lab: Lab, outcome: Outcome, fault: tuple[Call, Kind]) -> Iterator[None]:
    """Names the fault in the error of a check that fails."""
    call, kind = fault
    try:
        assert outcome.layer.injected, "the call was not made this time"
        yield
    except (AssertionError, TidybergError) as problem:
        text = f"seed {SEED}, version {lab.format_version}, {kind.value} at {call}: {problem}"
        raise AssertionError(text) from outcome.error


CHANGING = ("delete", "create", "write", "close", "commit", "move")


def faults_of(layer: Layer, number: int) -> list[tuple[Call, Kind]]:
    """All of them in the long run. Otherwise some, half of them crashes at calls that change something."""
    if EVERYTHING:
        return list(choose(layer.calls, None))
    rng = random.Random(SEED)
    changing = [(call, Kind.CRASH) for call, _ in layer.calls if call.operation in CHANGING]
    others = list(choose(layer.calls, rng))
    return rng.sample(changing, min(number, len(changing))) + rng.sample(others, min(number, len(others)))
