"""Audits look deleted keys up in parts if they would take too much memory. With a limit of one byte, each is a part."""

import pytest
from pyiceberg.partitioning import PartitionSpec

from tests.auditing.conftest import SpoilingRows
from tests.builders.audits import audit
from tests.builders.delete_scenarios import (
    Scenario,
    added_column,
    dropped_column,
    mixed,
    null_keys,
    older_sequence_numbers,
    one_key_set_several_times,
    promoted_column,
    renamed_column,
    several_key_sets,
)
from tests.builders.events_table import BY_REGION, SPECS, compact, make_table, paths
from tidyberg.execute.kernel.deletes.keys_in_parts import KeysInParts
from tidyberg.model.audit import Harm, Verdict
from tidyberg.model.options import VerifyMode
from tidyberg.model.task import TaskInput
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import delete_equal

EQUALITY: list[Scenario] = [
    several_key_sets,
    one_key_set_several_times,
    null_keys,
    dropped_column,
    renamed_column,
    promoted_column,
    added_column,
    older_sequence_numbers,
    mixed,
]


@pytest.fixture(name="read_in_parts")
def _read_in_parts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TaskInput, ...]]:
    """The files of each task that looks keys up in parts."""
    inputs: list[tuple[TaskInput, ...]] = []
    made = KeysInParts.__init__

    def note(self: KeysInParts, *args: object) -> None:
        made(self, *args)  # type: ignore[arg-type]
        inputs.append(tuple(self.inputs))

    monkeypatch.setattr(KeysInParts, "__init__", note)
    return inputs


@pytest.mark.parametrize("scenario", EQUALITY, ids=lambda scenario: scenario.__name__)
def test_an_audit_with_little_memory_finds_the_same_and_only_reads(
    warehouse: Warehouse, scenario: Scenario, read_in_parts: list[tuple[TaskInput, ...]]
) -> None:
    table = make_table(warehouse, BY_REGION)
    scenario(warehouse, table)
    compact(warehouse)
    files = warehouse.files_on_disk(table)
    expected = audit(warehouse)
    assert expected.snapshots[0].verdict is Verdict.INTACT
    assert read_in_parts == []
    assert audit(warehouse, key_memory_bytes=1) == expected
    assert read_in_parts
    assert warehouse.files_on_disk(table) == files


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_an_audit_with_little_memory_finds_the_same_damage(warehouse: Warehouse, spec: PartitionSpec) -> None:
    table = make_table(warehouse, spec)
    several_key_sets(warehouse, table)
    delete_equal(table, paths(warehouse, table)[0], {"id": [1, 2, 3]})
    compact(warehouse, engine=SpoilingRows(lambda rows: rows.slice(2)), verify=VerifyMode.OFF)
    expected = audit(warehouse)
    assert dict(expected.snapshots[0].harms) == {Harm.LOST: 2}
    assert audit(warehouse, key_memory_bytes=1) == expected
