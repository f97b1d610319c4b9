"""An expiry ends done or untouched whichever call fails, and the next run or recovery finishes what is left [I6]."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.builders.aged_tables import add_statistics_files, age, set_ref
from tests.builders.events_table import REF, compact
from tests.faults.lab import EVERYTHING, Lab, Outcome, faults_of, make_table, naming
from tests.faults.layer import Call, Kind, Layer, Wire, at
from tests.seed import SEED
from tidyberg.model.expiry import ExpireOptions
from tidyberg.testing import Warehouse, local_path

OPTIONS = ExpireOptions(clean_metadata=True)


@dataclass
class ExpiryLab(Lab):
    """A table whose snapshots are old, except for a tagged one and the newest."""

    rows_of: dict[int, list[str]] = field(default_factory=dict)
    staying: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        with Warehouse(self._home) as warehouse:
            table = make_table(warehouse, self.format_version)
            compact(warehouse)
            numbers = [one.snapshot_id for one in table.refresh().metadata.snapshots]
            set_ref(table, "q1", numbers[1])
            add_statistics_files(table, numbers[:1])
            add_statistics_files(table, [numbers[2], numbers[-1]], by_partition=True)
            age(table, [float(20 - number) for number in range(len(numbers))])
            self.staying = {numbers[1], numbers[-1]}
            self.rows_of = {number: warehouse.rows(table, snapshot_id=number) for number in numbers}
            self.files = frozenset(warehouse.files_on_disk(table))
        self.keep()

    def expire(self, layer: Layer | None = None) -> Outcome:
        outcome = Outcome(None, None, layer or Layer(), [])
        return self.run(lambda control: control.expire(REF, OPTIONS).outcome, outcome)

    def judge(self, outcome: Outcome, *, resume: bool) -> str:
        """Says whether the snapshots were gone before anything was recovered."""
        outcome.check_error()
        with self.open() as (warehouse, control, _):
            ended = "expired" if self._check_readable(warehouse) == self.staying else "untouched"
            if outcome.result == "expired":
                assert ended == "expired", "said to have expired, and had not"
            if not resume:
                control.recover()
                self._check_readable(warehouse)
            control.expire(REF, OPTIONS)
            assert self._check_readable(warehouse) == self.staying
            assert control.expire(REF, OPTIONS).outcome == "nothing"
            assert control.recover() == []
            self._check_nothing_left(warehouse)
        return ended

    def _check_readable(self, warehouse: Warehouse) -> set[int]:
        table = warehouse.catalog.load_table("db.events")
        missing = warehouse.referenced_files(table) - warehouse.files_on_disk(table)
        assert not missing, f"something referenced is gone: {missing}"
        found = {one.snapshot_id for one in table.metadata.snapshots}
        for number in found & self.staying:
            assert warehouse.rows(table, snapshot_id=number) == self.rows_of[number]
        return found

    def _check_nothing_left(self, warehouse: Warehouse) -> None:
        table = warehouse.catalog.load_table("db.events")
        metadata = table.metadata
        statistics = {local_path(one.statistics_path) for one in (*metadata.statistics, *metadata.partition_statistics)}
        left = warehouse.files_on_disk(table) - warehouse.referenced_files(table) - statistics
        assert not left, f"leftovers: {left}"


def verdict(lab: ExpiryLab, outcome: Outcome, fault: tuple[Call, Kind], *, resume: bool) -> str:
    with naming(lab, outcome, fault):
        return lab.judge(outcome, resume=resume)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_an_expiry_ends_done_or_untouched_whichever_call_fails(tmp_path: Path) -> None:
    lab = ExpiryLab(tmp_path, [1, 2, 3][SEED % 3] if EVERYTHING else [2, 3][SEED % 2])
    recorded = lab.expire()
    assert recorded.result == "expired"
    deletes = {call.what for call, _ in recorded.layer.calls if call.operation == "delete" and call.wire is Wire.FILES}
    assert len(deletes) > 10
    ends: Counter[str] = Counter()
    for number, (call, kind) in enumerate(faults_of(recorded.layer, 8)):
        lab.restore()
        outcome = lab.expire(Layer(at(call, kind)))
        ends[verdict(lab, outcome, (call, kind), resume=number % 2 == 0)] += 1
    print(dict(ends))  # noqa: T201
    assert ends["expired"]
    assert ends["untouched"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_recovery_of_an_expiry_can_fail_at_any_call_and_be_repeated(tmp_path: Path) -> None:
    lab = ExpiryLab(tmp_path, 3)
    calls = [call for call, _ in lab.expire().layer.calls]
    first = next(call for call in calls if call.operation == "delete" and call.wire is Wire.FILES)
    lab.restore()
    assert lab.expire(Layer(at(first, Kind.CRASH))).layer.is_dead
    lab.keep()
    recorded = lab.recover()
    assert recorded.result is not None
    assert "had expired its snapshots" in recorded.result
    for number, (call, kind) in enumerate(faults_of(recorded.layer, 4)):
        lab.restore()
        outcome = lab.recover(Layer(at(call, kind)))
        assert verdict(lab, outcome, (call, kind), resume=number % 2 == 0) == "expired"
