"""Manifests that lose entries in one commit are merged, and every entry keeps its values [I3 I8 I9]."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
    UUIDType,
)

from tests.builders.control import make_control
from tests.builders.events_table import BY_REGION, REF, SCHEMA, append, compact, options, rows_of
from tidyberg.avro.records import AvroFile
from tidyberg.commit.entries import Identity, Manifest
from tidyberg.commit.manifests import Loss, read_manifest
from tidyberg.commit.merging import merge_losses
from tidyberg.commit.new_partitions import decode_partitions, empty_manifest, encode_partition
from tidyberg.model.merging import MERGE_PROPERTY, SIZE_PROPERTY, merged_manifest_bytes
from tidyberg.observe.manifest_list import ListedManifest
from tidyberg.storage.table_files import read_bytes
from tidyberg.testing import Warehouse
from tidyberg.testing.commits import manifests_of
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes
from tidyberg.testing.manifests import LiveFile, live_files

ADDED, EXISTING, DELETED = 1, 0, 2
EU = "region = 'eu'"
_NONE: frozenset[Identity] = frozenset()


def piled(warehouse: Warehouse, format_version: int, **properties: str) -> Table:
    """Four commits of a file in each region, then, but in v1, two equality deletes in each, a commit each."""
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION, format_version=format_version, properties=properties)
    for number in range(4):
        both = pa.concat_tables([rows_of(number, "eu"), rows_of(number + 10, "us")])
        warehouse.append_files(table, 1, rows=[both].__getitem__)
    if format_version > 1:
        for amount, region in ((1, "eu"), (2, "us"), (3, "eu"), (4, "us")):
            like = next(f.path for f in live(table) if f.partition == (region,))
            commit_deletes(table, EqualTo({"amount": [amount]}, like))
    return table


def live(table: Table) -> list[LiveFile]:
    return live_files(table, table.refresh().current_snapshot())


def entries_of(table: Table, line: ListedManifest) -> list[dict[int, Any]]:
    return list(AvroFile.parse(read_bytes(table.io, line.path)).records())


def rewritten(table: Table) -> list[ListedManifest]:
    """Those of the last commit that hold no new files."""
    head = table.refresh().current_snapshot()
    assert head is not None
    return [line for line in manifests_of(table) if line.added_snapshot_id == head.snapshot_id and not line.fields[504]]


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_entries_that_stay_are_in_one_manifest_as_they_were(warehouse: Warehouse, format_version: int) -> None:
    table = piled(warehouse, format_version)
    before = {file.path: file for file in live(table)}
    rows = warehouse.rows(table, lineage=format_version > 2)
    snapshots = {
        entry[2][100]: entry[1] if entry[1] is not None else line.added_snapshot_id
        for line in manifests_of(table)
        for entry in entries_of(table, line)
    }

    compact(warehouse, options(where=EU))

    assert warehouse.rows(table, lineage=format_version > 2) == rows
    (data,) = (line for line in rewritten(table) if line.content == 0)
    gone = {path for path, file in before.items() if file.partition == ("eu",) and not file.equality_ids}
    assert len(gone) == 4
    kept = [entry for entry in entries_of(table, data) if entry[0] == EXISTING]
    assert len(kept) == 4
    for entry in kept:
        path = entry[2][100]
        assert entry[1] == snapshots[path]
        if format_version > 1:
            assert entry[3] == entry[4] == before[path].sequence_number
        assert entry[2].get(142) == before[path].first_row_id
    head = table.current_snapshot()
    assert head is not None
    removed = [entry for entry in entries_of(table, data) if entry[0] == DELETED]
    assert {entry[2][100] for entry in removed} == gone
    assert {entry[1] for entry in removed} == {head.snapshot_id}
    if format_version > 1:
        assert {entry[2][100]: entry[3] for entry in removed} == {path: before[path].sequence_number for path in gone}
    assert [data.fields[number] for number in (504, 505, 506, 512, 513, 514)] == [0, 4, 4, 0, 40, 40]
    oldest = min(before[entry[2][100]].sequence_number for entry in kept)
    assert data.fields.get(516) == (oldest if format_version > 1 else None)
    assert data.fields[507] == [{509: False, 518: False, 510: b"eu", 511: b"us"}]
    after = {file.path: file for file in live(table)}
    assert {path: after[path] for path in before.keys() & after.keys()} == {
        path: before[path] for path in before.keys() & after.keys()
    }


def test_delete_manifests_of_a_commit_become_one_and_stay_apart_from_data(warehouse: Warehouse) -> None:
    table = piled(warehouse, 2)
    lines = len(manifests_of(table))
    assert lines == 4 + 4

    compact(warehouse)

    # The data files all go, as do the deletes that were applied to them.
    assert sorted((line.content, line.fields[506]) for line in rewritten(table)) == [(0, 8), (1, 4)]
    assert len(manifests_of(table)) == 2 + 1
    append(warehouse, table, [5], "eu")
    assert not [line for line in manifests_of(table) if line.fields[506]], "nobody carries what is gone any further"


def test_manifests_without_live_entries_are_not_merged_with_others(warehouse: Warehouse) -> None:
    table = piled(warehouse, 2)
    append(warehouse, table, [6, 7], "eu")

    compact(warehouse, options(where=EU))

    found = sorted((line.content, line.fields[505], line.fields[506]) for line in rewritten(table))
    assert found == [(0, 0, 2), (0, 4, 4), (1, 0, 2)]


def test_summaries_cover_the_partitions_of_all_that_was_merged(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION)
    for number, region in enumerate(["f", "c", "h", "d"]):
        append(warehouse, table, [2 * number, 2 * number + 1], region, per_commit=2)
    no_region = rows_of(20, "x").set_column(1, "region", pa.nulls(10, pa.string()))
    warehouse.append_files(table, 2, rows=lambda _: no_region)

    compact(warehouse)

    (gone,) = rewritten(table)
    assert (gone.fields[506], gone.fields[507]) == (10, [{509: True, 518: False, 510: b"c", 511: b"h"}])


def test_manifests_of_different_specs_stay_apart(warehouse: Warehouse) -> None:
    table = piled(warehouse, 2)
    with table.update_spec() as update:
        update.add_identity("note")
    append(warehouse, table, [6, 7], "eu")
    rows = warehouse.rows(table)

    compact(warehouse, replace(options(), rewrite_to_current_spec=True))

    assert warehouse.rows(table) == rows
    assert sorted((line.spec_id, line.content, line.fields[506]) for line in rewritten(table)) == [
        (0, 0, 8),
        (0, 1, 4),
        (1, 0, 6),
    ]


@pytest.mark.parametrize(
    ("properties", "manifests"),
    [
        ({MERGE_PROPERTY: "false"}, 4 + 2),
        ({SIZE_PROPERTY: "1"}, 4 + 2),
        ({SIZE_PROPERTY: "12000"}, 2 + 1),
        ({SIZE_PROPERTY: "eight"}, 1 + 1),
    ],
)
def test_the_tables_properties_say_how_large_a_manifest_becomes(
    warehouse: Warehouse, properties: dict[str, str], manifests: int
) -> None:
    table = piled(warehouse, 2, **properties)
    rows = warehouse.rows(table)
    compact(warehouse, options(where=EU))
    assert warehouse.rows(table) == rows
    assert len(rewritten(table)) == manifests


def test_the_properties_are_icebergs_own() -> None:
    assert merged_manifest_bytes({}) == 8_388_608
    assert merged_manifest_bytes({"commit.manifest.target-size-bytes": "100"}) == 100
    assert merged_manifest_bytes({"commit.manifest-merge.enabled": "False"}) == 0


@pytest.mark.parametrize("format_version", [2, 3])
def test_manifests_are_merged_again_after_a_commit_came_in_between(warehouse: Warehouse, format_version: int) -> None:
    """The second attempt reuses what still holds, and misses nothing of what the overtaker did to those manifests."""
    table = piled(warehouse, format_version)
    stays = next(file for file in live(table) if file.partition == ("us",) and not file.equality_ids)
    waiting = [stays.path]

    class Overtaken(SqlCatalog):
        def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
            if waiting:
                commit_deletes(warehouse.catalog.load_table("db.events"), remove=[waiting.pop()])
            return super().commit_table(table, requirements, updates)

    properties = {key: value for key, value in warehouse.properties.items() if key != "type"}
    catalog = Overtaken(warehouse.name, **properties)
    before = {file.path: file for file in live(table)}
    with make_control(warehouse, open_catalog=lambda _: catalog, replans=0) as control:
        assert control.compact(REF, options(where=EU)).outcome == "committed"
    catalog.engine.dispose()

    # The manifest that lost its last file meanwhile keeps nothing now.
    data = [(line.fields[505], line.fields[506]) for line in rewritten(table) if line.content == 0]
    assert sorted(data) == [(0, 1), (3, 3)]
    after = live(table)
    assert stays.path not in {file.path for file in after}
    left = [file for file in after if file.partition == ("us",)]
    assert len(left) == 3 + 2
    assert left == [before[file.path] for file in left]


def test_rows_without_ids_and_rows_with_ids_are_not_merged(warehouse: Warehouse) -> None:
    """Of manifests from before an upgrade only those that no commit listed since have rows without ids."""
    table = piled(warehouse, 2)
    warehouse.upgrade(table, 3)
    lines = [line for line in manifests_of(table) if line.content == 0]
    with_ids = [ListedManifest({**line.fields, 520: 1_000 * n}) for n, line in enumerate(lines[:2])]
    losses = [loss_of(table, line) for line in (*with_ids, *lines[2:])]
    assert [len(bundle) for bundle in merge_losses(losses, 3, {})] == [2, 2]


def loss_of(table: Table, line: ListedManifest) -> Loss:
    manifest = read_manifest(table.io, line)
    return Loss(manifest, frozenset({manifest.entries[0].identity}))


@pytest.mark.parametrize(("kind", "bundles"), [(UUIDType(), [1, 1]), (StringType(), [2])])
def test_manifests_partitioned_by_uuid_are_not_merged(kind: PrimitiveType, bundles: list[int]) -> None:
    """Iceberg's Java long ordered them as signed numbers: no two bounds are right for every reader."""
    assert bundles_of(empty_manifest(*partitioned_by(kind)), [{}, {}]) == bundles


def test_manifests_of_another_spec_or_content_are_not_merged_however_alike_they_are() -> None:
    template = empty_manifest(*partitioned_by(StringType()))
    assert bundles_of(template, [{}, {502: 7}, {517: 1}, {502: 7}, {}]) == [2, 2, 1]


def bundles_of(template: Manifest, lines: list[dict[int, int]]) -> list[int]:
    """How many manifests become one; `lines` tell what is peculiar to each."""
    losses = [
        Loss(
            replace(template, listed=ListedManifest({**template.listed.fields, 500: f"{n}.avro", 501: 9, **line})),
            _NONE,
        )
        for n, line in enumerate(lines)
    ]
    return [len(bundle) for bundle in merge_losses(losses, 2, {})]


def partitioned_by(*kinds: PrimitiveType) -> tuple[TableMetadata, int]:
    schema = Schema(*(NestedField(number, f"c{number}", kind) for number, kind in enumerate(kinds, 1)))
    numbers = range(1, len(kinds) + 1)
    spec = PartitionSpec(*(PartitionField(n, 999 + n, IdentityTransform(), f"c{n}") for n in numbers))
    metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, "file:///nowhere")
    return metadata, metadata.default_spec_id


KINDS: list[tuple[PrimitiveType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), st.integers(-(2**63), 2**63 - 1)),
    (FloatType(), st.floats(width=32, allow_nan=False)),
    (DoubleType(), st.floats(allow_nan=False)),
    (DecimalType(9, 2), st.decimals(-9_999_999, 9_999_999, places=2)),
    (StringType(), st.text(max_size=5)),
    (BinaryType(), st.binary(max_size=5)),
    (FixedType(4), st.binary(min_size=4, max_size=4)),
    (UUIDType(), st.uuids()),
    (DateType(), st.integers(-(2**31), 2**31 - 1)),
    (TimestamptzType(), st.integers(-(2**63), 2**63 - 1)),
]


@given(st.lists(st.tuples(*(st.none() | values for _, values in KINDS)), min_size=1, max_size=5))
def test_partitions_are_read_back_as_they_were_written(partitions: list[tuple[Any, ...]]) -> None:
    metadata, spec_id = partitioned_by(*(kind for kind, _ in KINDS))
    template = empty_manifest(metadata, spec_id)
    encoded = [encode_partition(template, metadata.spec(), values) for values in partitions]
    assert list(decode_partitions(template, encoded)) == partitions


def test_position_deletes_of_ten_commits_cost_one_manifest(warehouse: Warehouse) -> None:
    """As many requests as the same job without deletes, and one."""
    table = warehouse.create_table("db.events", SCHEMA, format_version=2)
    append(warehouse, table, list(range(10)), "eu", per_commit=10)
    for file in live(table):
        commit_deletes(table, Positions({file.path: [1, 2]}, file_scoped=True))
    rows = warehouse.rows(table)
    before = warehouse.files_on_disk(table)

    result = compact(warehouse)

    assert warehouse.rows(table) == rows
    written = [path for path in warehouse.files_on_disk(table) - before if "/metadata/" in path]
    assert len(written) == len(["added", "data", "deletes", "list", "metadata"])
    # The output, and no table metadata on top: each was counted.
    assert result.plan.estimate.put_requests == len(written) + 1
