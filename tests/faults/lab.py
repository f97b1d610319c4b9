"""A table with everything, put back as it was before each run, and what must hold after one that went wrong."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from pyiceberg.table import Table

from tests.control.conftest import make_control
from tests.deletes.tables import BY_REGION, REF, SCHEMA, append, data_files, options
from tests.faults.layer import Crash, Layer
from tests.faults.wires import wired
from tidyberg.control.control import Control
from tidyberg.errors import TidybergError
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.job import JobStatus, Owner
from tidyberg.model.options import VerifyMode
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes
from tidyberg.testing.reading import read_rows

DEAD = Owner(socket.gethostname(), 2**22 + 1, 1.0)  # no process has this number: whoever finds its job finds it dead


def make_table(warehouse: Warehouse, format_version: int) -> Table:
    """Two partitions of two files with all kinds of deletes, and one that is left alone."""
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION, format_version=format_version)
    append(warehouse, table, [0, 1], "eu", per_commit=2)
    append(warehouse, table, [2, 3], "us", per_commit=2)
    append(warehouse, table, [4], "ap")
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
    """What a run came to, as its caller saw it."""

    result: str | None
    error: BaseException | None
    layer: Layer


@dataclass
class Lab:
    """One directory, made once; `restore` puts it back, paths and all."""

    directory: Path
    format_version: int = 2

    rows: list[str] = field(default_factory=list)
    files: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        with Warehouse(self._home) as warehouse:
            table = make_table(warehouse, self.format_version)
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
        """A job that may go wrong, of a process that is gone afterwards."""
        layer = layer or Layer()
        layer.known = self.files
        with (
            self.open(engine) as (warehouse, control, store),
            patch("tidyberg.control.control.this_process", lambda: DEAD),
            wired(layer, warehouse.catalog, store),
        ):
            try:
                result = control.compact(REF, options(), verify=VerifyMode.FULL)
            except (Exception, Crash) as error:  # noqa: BLE001  # whatever it is, the caller judges it
                return Outcome(None, error, layer)
            return Outcome(result.outcome, None, layer)

    def recover(self, layer: Layer | None = None) -> Outcome:
        layer = layer or Layer()
        layer.known = self.files
        with (
            self.open() as (warehouse, control, store),
            patch("tidyberg.control.control.this_process", lambda: DEAD),
            wired(layer, warehouse.catalog, store),
        ):
            try:
                return Outcome("; ".join(control.recover()), None, layer)
            except (Exception, Crash) as error:  # noqa: BLE001
                return Outcome(None, error, layer)

    def check(self, outcome: Outcome) -> bool:
        """Committed once or untouched, and tidy after recovery; says which."""
        if outcome.error is not None and not outcome.layer.is_dead:
            assert isinstance(outcome.error, TidybergError), f"a raw {type(outcome.error).__name__}: {outcome.error}"
        with self.open() as (warehouse, control, _):
            table = warehouse.catalog.load_table("db.events")
            assert rows_of(warehouse, table) == self.rows, "the table must read right before anything is recovered"
            control.recover()
            committed = self._check_tidy(warehouse, table, control)
            assert committed <= 1, "committed more than once"
            if outcome.result in ("committed", "partly"):
                assert committed == 1, "said to have committed, and had not"
            (job,) = control.history(REF) or (None,)
            if job is not None:
                assert (job.status is JobStatus.SUCCEEDED) == bool(committed), f"{job.status} after {committed} commits"
            assert outcome.result != "nothing", "there was something to do"
            result = control.compact(REF, options(), verify=VerifyMode.FULL)
            assert result.outcome == ("nothing" if committed else "committed"), "the next run does what is left to do"
            assert self._check_tidy(warehouse, table, control) == 1
            assert rows_of(warehouse, table) == self.rows
            return bool(committed)

    def _check_tidy(self, warehouse: Warehouse, table: Table, control: Control) -> int:
        """Number of commits of ours."""
        on_disk, referenced = warehouse.files_on_disk(table), warehouse.referenced_files(table)
        assert not on_disk - referenced, f"leftovers: {on_disk - referenced}"
        assert not referenced - on_disk, "something referenced is gone"
        jobs = control.history(REF, limit=100)
        assert all(job.status.is_final and not job.unresolved for job in jobs), [job.notes for job in jobs]
        snapshots = table.refresh().metadata.snapshots
        return sum(s.summary is not None and s.summary.operation.value == "replace" for s in snapshots)
