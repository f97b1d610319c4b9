"""Whichever call of a search for orphans fails: nothing referenced is deleted, and the next run finishes [I6]."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.builders.aged_tables import add_statistics_files, set_ref
from tests.builders.events_table import REF
from tests.builders.stray_files import backdate_all, put
from tests.faults.lab import Lab, Outcome, faults_of, make_table, naming
from tests.faults.layer import Layer, at
from tests.seed import SEED
from tidyberg.model.orphans import OrphanOptions
from tidyberg.testing import Warehouse

NOW = OrphanOptions(now=True)
ORPHANS = ("data/lost-1.parquet", "data/region=eu/lost-2.parquet", "metadata/lost-m0.avro", "metadata/lost.stats")


@dataclass
class OrphanLab(Lab):
    """An old table with old orphans."""

    is_quarantine: bool = False
    orphans: frozenset[str] = frozenset()
    staying: frozenset[str] = frozenset()
    all_rows: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with Warehouse(self._home) as warehouse:
            table = make_table(warehouse, self.format_version)
            numbers = [one.snapshot_id for one in table.refresh().metadata.snapshots]
            set_ref(table, "q1", numbers[1])
            add_statistics_files(table, numbers[:1])
            add_statistics_files(table, numbers[-1:], by_partition=True)
            backdate_all(table)
            self.staying = frozenset(warehouse.files_on_disk(table))
            self.orphans = frozenset(put(table, name) for name in ORPHANS)
            self.files = self.staying | self.orphans
            self.all_rows = {number: warehouse.rows(table, snapshot_id=number) for number in numbers}
        self.keep()

    def remove(self, layer: Layer | None = None) -> Outcome:
        options = replace(NOW, quarantine=self.is_quarantine)
        outcome = Outcome(None, None, layer or Layer(), [])
        return self.run(lambda control: control.remove_orphans(REF, options).outcome, outcome)

    def judge(self, outcome: Outcome) -> str:
        """Says whether orphans were left before the next run."""
        outcome.check_error()
        with self.open() as (warehouse, control, _):
            left = self._check_readable(warehouse)
            if outcome.result in ("deleted", "quarantined"):
                assert not left, "said to have removed all, and had not"
            if self.is_quarantine:
                control.restore_orphans(REF)
                assert self._check_readable(warehouse) == self.orphans, "an orphan cannot be brought back"
                backdate_all(warehouse.catalog.load_table("db.events"))
            again = control.remove_orphans(REF, NOW).outcome
            assert again == ("deleted" if left or self.is_quarantine else "nothing")
            assert not self._check_readable(warehouse)
            assert control.remove_orphans(REF, NOW).outcome == "nothing"
            said = control.recover()
            assert len(said) <= 1, said
            table = warehouse.catalog.load_table("db.events")
            own = {path for path in warehouse.files_on_disk(table) if "_tidyberg" in path}
            assert not {path for path in own if "/quarantine/" not in path}
        return "left" if left else "gone"

    def _check_readable(self, warehouse: Warehouse) -> frozenset[str]:
        """Returns the orphans that are there."""
        table = warehouse.catalog.load_table("db.events")
        there = warehouse.files_on_disk(table)
        assert self.staying <= there, f"something referenced is gone: {self.staying - there}"
        for number, rows in self.all_rows.items():
            assert warehouse.rows(table, snapshot_id=number) == rows
        return self.orphans & there


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("is_quarantine", [False, True], ids=["delete", "quarantine"])
def test_nothing_referenced_is_lost_whichever_call_fails(tmp_path: Path, is_quarantine: bool) -> None:
    lab = OrphanLab(tmp_path, [2, 3][SEED % 2], is_quarantine=is_quarantine)
    recorded = lab.remove()
    assert recorded.result == ("quarantined" if is_quarantine else "deleted")
    changing = {call.what for call, _ in recorded.layer.calls if call.operation in ("delete", "move")}
    assert lab.orphans <= changing
    ends: Counter[str] = Counter()
    for call, kind in faults_of(recorded.layer, 5):
        lab.restore()
        outcome = lab.remove(Layer(at(call, kind)))
        with naming(lab, outcome, (call, kind)):
            ends[lab.judge(outcome)] += 1
    print(dict(ends))  # noqa: T201
    assert ends["left"]
