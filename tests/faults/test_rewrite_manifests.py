"""A rewrite of manifests ends done or untouched whichever call fails, and nothing of it is left over [I6, I7]."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.builders.events_table import REF
from tests.builders.manifest_entries import listed, live_entries_of
from tests.faults.lab import EVERYTHING, Lab, Outcome, faults_of, make_table, naming, rows_of
from tests.faults.layer import Call, Kind, Layer, Wire, at
from tests.seed import SEED
from tidyberg.model.manifest_rewrite import ManifestOptions
from tidyberg.testing import Warehouse

OPTIONS = ManifestOptions(force=True)


@dataclass
class ManifestLab(Lab):
    """A table with data and delete manifests."""

    entries: list[str] = field(default_factory=list)
    table_rows: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        with Warehouse(self._home) as warehouse:
            table = make_table(warehouse, self.format_version)
            self.entries, self.table_rows = live_entries_of(table), rows_of(warehouse, table)
            self.files = frozenset(warehouse.files_on_disk(table))
        self.keep()

    def rewrite(self, layer: Layer | None = None) -> Outcome:
        outcome = Outcome(None, None, layer or Layer(), [])
        return self.run(lambda control: control.rewrite_manifests(REF, OPTIONS).outcome, outcome)

    def judge(self, outcome: Outcome, *, resume: bool) -> str:
        """Says whether the manifests were rewritten before anything was recovered."""
        outcome.check_error()
        with self.open() as (warehouse, control, _):
            ended = "rewritten" if self._check(warehouse) == 2 else "untouched"
            if outcome.result == "rewritten":
                assert ended == "rewritten", "said to be rewritten, and was not"
            if not resume:
                control.recover()
                self._check(warehouse)
                self._check_nothing_left(warehouse)
            assert control.rewrite_manifests(REF, OPTIONS).outcome == "rewritten"
            assert self._check(warehouse) == 2
            assert control.recover() == []
            self._check_nothing_left(warehouse)
        return ended

    def _check(self, warehouse: Warehouse) -> int:
        """Returns the number of manifests."""
        table = warehouse.catalog.load_table("db.events")
        missing = warehouse.referenced_files(table) - warehouse.files_on_disk(table)
        assert not missing, f"something referenced is gone: {missing}"
        assert live_entries_of(table) == self.entries
        assert rows_of(warehouse, table) == self.table_rows
        return len(listed(table))

    def _check_nothing_left(self, warehouse: Warehouse) -> None:
        table = warehouse.catalog.load_table("db.events")
        left = warehouse.files_on_disk(table) - warehouse.referenced_files(table)
        assert not left, f"leftovers: {left}"


def verdict(lab: ManifestLab, outcome: Outcome, fault: tuple[Call, Kind], *, resume: bool) -> str:
    with naming(lab, outcome, fault):
        return lab.judge(outcome, resume=resume)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_rewrite_ends_done_or_untouched_whichever_call_fails(tmp_path: Path) -> None:
    lab = ManifestLab(tmp_path, [1, 2, 3][SEED % 3] if EVERYTHING and SEED % 3 else [2, 3][SEED % 2])
    recorded = lab.rewrite()
    assert recorded.result == "rewritten"
    ends: Counter[str] = Counter()
    for number, (call, kind) in enumerate(faults_of(recorded.layer, 7)):
        lab.restore()
        outcome = lab.rewrite(Layer(at(call, kind)))
        ends[verdict(lab, outcome, (call, kind), resume=number % 2 == 0)] += 1
    print(dict(ends))  # noqa: T201
    assert ends["rewritten"]
    assert ends["untouched"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_recovery_of_a_rewrite_can_fail_at_any_call_and_be_repeated(tmp_path: Path) -> None:
    lab = ManifestLab(tmp_path, 3)
    calls = [call for call, _ in lab.rewrite().layer.calls]
    commit = next(call for call in calls if call.wire is Wire.CATALOG and call.operation == "commit")
    lab.restore()
    assert lab.rewrite(Layer(at(commit, Kind.CRASH))).layer.is_dead
    lab.keep()
    recorded = lab.recover()
    assert recorded.result is not None
    assert "had not committed" in recorded.result
    for number, (call, kind) in enumerate(faults_of(recorded.layer, 4)):
        lab.restore()
        outcome = lab.recover(Layer(at(call, kind)))
        assert verdict(lab, outcome, (call, kind), resume=number % 2 == 0) == "untouched"
