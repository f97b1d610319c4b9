"""Tables with a history of many days, for tests that expire snapshots."""

import json
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType

from tests.builders.events_table import BY_REGION, SCHEMA, append, compact, data_files
from tidyberg.record.clock import wall_clock_ms
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.commits import LabCatalog
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes

DAY_MS = 86_400_000
NAME = "db.events"


def change_metadata(table: Table, change: Callable[[dict[str, Any]], None]) -> Table:
    """Rewrites the current metadata.json, as if the table had always been so."""
    path = Path(local_path(table.refresh().metadata_location))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return table.refresh()


def age(table: Table, days: Sequence[float], now_ms: int | None = None) -> Table:
    """Dates the snapshots back, oldest first, by so many days."""
    now = now_ms or wall_clock_ms()

    def change(document: dict[str, Any]) -> None:
        assert len(document["snapshots"]) == len(days)
        for snapshot, back in zip(document["snapshots"], days, strict=True):
            snapshot["timestamp-ms"] = now - round(back * DAY_MS)
        current = document["current-snapshot-id"]
        document["snapshot-log"] = [{"snapshot-id": current, "timestamp-ms": document["last-updated-ms"]}]

    return change_metadata(table, change)


def set_ref(
    table: Table, name: str, snapshot_id: int, retention: Mapping[str, int] | None = None, *, is_branch: bool = False
) -> Table:
    kind = SnapshotRefType.BRANCH if is_branch else SnapshotRefType.TAG
    settings = {"max_ref_age_ms": None, "max_snapshot_age_ms": None, "min_snapshots_to_keep": None, **(retention or {})}
    update = SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id, **settings)
    table.catalog.commit_table(table, (), (update,))
    return table.refresh()


def set_branch(table: Table, name: str, snapshot_id: int, retention: Mapping[str, int] | None = None) -> Table:
    return set_ref(table, name, snapshot_id, retention, is_branch=True)


def add_statistics_files(table: Table, snapshot_ids: Sequence[int], *, by_partition: bool = False) -> str:
    """One file for all these snapshots. Its content does not matter to anybody who expires."""
    path = f"{table.location()}/metadata/{uuid.uuid4()}.stats"
    Path(local_path(path)).write_bytes(b"statistics")

    def change(document: dict[str, Any]) -> None:
        for number in snapshot_ids:
            entry: dict[str, Any] = {"snapshot-id": number, "statistics-path": path, "file-size-in-bytes": 10}
            if by_partition:
                document.setdefault("partition-statistics", []).append(entry)
            else:
                entry |= {"file-footer-size-in-bytes": 4, "blob-metadata": []}
                document.setdefault("statistics", []).append(entry)

    change_metadata(table, change)
    return path


def metadata_files(warehouse: Warehouse, table: Table) -> set[str]:
    return {path for path in warehouse.files_on_disk(table) if ".metadata.json" in path}


def content_on_disk(warehouse: Warehouse, table: Table) -> set[str]:
    """All files of the table except metadata.json and Java's checksums."""
    found = warehouse.files_on_disk(table) - metadata_files(warehouse, table)
    return {path for path in found if not path.endswith(".crc")}


def random_history(warehouse: Warehouse, rng: random.Random, format_version: int, steps: int = 12) -> Table:
    """Appends, all kinds of deletes, compactions, branches, tags, dropped branches, rollbacks, changes of schema and
    spec, statistics. The snapshots are up to 30 days old, and refs and properties have random retention settings."""
    table = warehouse.create_table(NAME, SCHEMA, BY_REGION, format_version=format_version)
    history = _History(warehouse, rng, table)
    append(warehouse, table, [0, 1, 2], "eu")
    for number in range(steps):
        history.step(number + 3)
    return history.finish()


class _History:
    def __init__(self, warehouse: Warehouse, rng: random.Random, table: Table) -> None:
        self.warehouse = warehouse
        self.rng = rng
        self.table = table

    def step(self, number: int) -> None:
        steps: list[tuple[int, Callable[[], object]]] = [
            (4, lambda: append(self.warehouse, self.table, [number], self.rng.choice(["eu", "us"]))),
            (4, self._delete),
            (1, lambda: compact(self.warehouse)),
            (1, lambda: set_branch(self.table, f"branch-{number}", self._any(), self._retention(branch=True))),
            (2, lambda: self._staged(number)),
            (2, lambda: set_ref(self.table, f"tag-{number}", self._any(), self._retention(branch=False))),
            (1, lambda: set_branch(self.table, "main", self._any())),
            (1, lambda: self._evolve(number)),
        ]
        weights = [weight for weight, _ in steps]
        self.rng.choices([step for _, step in steps], weights)[0]()
        self.table.refresh()

    def _any(self) -> int:
        return self.rng.choice(self.table.refresh().metadata.snapshots).snapshot_id

    def _retention(self, *, branch: bool) -> dict[str, int]:
        found = {}
        if self.rng.random() < 0.4:
            found["max_ref_age_ms"] = self._days()
        if branch and self.rng.random() < 0.4:
            found["max_snapshot_age_ms"] = self._days()
        if branch and self.rng.random() < 0.4:
            found["min_snapshots_to_keep"] = self.rng.randint(1, 4)
        return found

    def _days(self) -> int:
        return self.rng.randint(1, 29) * DAY_MS + DAY_MS // 4  # snapshots lie half a day away from it

    def _delete(self) -> None:
        files = [file.path for file in data_files(self.warehouse, self.table)]
        version = self.table.metadata.format_version
        if not files:
            return
        path = self.rng.choice(files)
        if version == 1:
            live = self.table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
            self.table.delete(f"id == {self.rng.choice(live)}")
        elif self.rng.random() < 0.3:
            commit_deletes(self.table, EqualTo({"id": [self.rng.randrange(100)]}, path))
        elif version == 2:
            commit_deletes(self.table, Positions({path: [0]}, file_scoped=True))
        else:
            several = self.rng.sample(files, min(2, len(files)))  # both vectors are in one Puffin file
            commit_deletes(self.table, Vectors({one: [0] for one in several}))

    def _staged(self, number: int) -> None:
        """A snapshot of a branch that may be dropped later: then no ref leads to it."""
        name = f"staged-{number}"
        set_branch(self.table, name, self._any(), self._retention(branch=True))
        self.warehouse.append_files(self.table, 1, 5, branch=name)
        if self.rng.random() < 0.6:
            change_metadata(self.table, lambda document: document["refs"].pop(name))

    def _evolve(self, number: int) -> None:
        by_amount = [field.name for field in self.table.spec().fields if field.name.startswith("amount")]
        if self.rng.random() < 0.5:
            with self.table.update_schema() as schema:
                schema.add_column(f"c{number}", IntegerType())
        else:
            with self.table.update_spec() as spec:
                if by_amount:
                    spec.remove_field(by_amount[0])
                else:
                    spec.add_field("amount", IdentityTransform(), f"amount_{number}")

    def finish(self) -> Table:
        table, rng = self.table.refresh(), self.rng
        ids = [one.snapshot_id for one in table.metadata.snapshots]
        for by_partition in (False, True):
            add_statistics_files(table, rng.sample(ids, min(2, len(ids))), by_partition=by_partition)
            add_statistics_files(table, [rng.choice(ids)], by_partition=by_partition)
        for name, value in (
            ("history.expire.max-snapshot-age-ms", self._days()),
            ("history.expire.min-snapshots-to-keep", rng.randint(1, 4)),
            ("history.expire.max-ref-age-ms", self._days()),
        ):
            if rng.random() < 0.4:
                with table.transaction() as transaction:
                    transaction.set_properties({name: str(value)})
        days = sorted((rng.randint(0, 29) + 0.75 for _ in ids), reverse=True)
        return age(table, days)


def rewind(warehouse: Warehouse, table: Table, metadata_location: str) -> None:
    """Makes an earlier metadata file the current one, after its files were put back."""
    assert isinstance(warehouse.catalog, LabCatalog)
    warehouse.catalog.point_to(table, metadata_location)
    table.refresh()


def add_old_snapshots(warehouse: Warehouse, table: Table) -> Table:
    """Adds three snapshots to a table with one. Three of the four are then older than five days; one has the tag q1."""
    warehouse.append_files(table, 3, 10, files_per_commit=1)
    set_ref(table, "q1", table.refresh().metadata.snapshots[1].snapshot_id)
    return age(table, [20, 15, 10, 1])
