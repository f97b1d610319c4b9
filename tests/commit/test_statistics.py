"""Which statistics files of the parent a commit keeps."""

from pyiceberg.table import Table
from pyiceberg.table.statistics import PartitionStatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate

from tests.builders.engines import Meddling
from tests.builders.events_table import BY_REGION, append, compact, make_table, options
from tests.builders.statistics_files import THETA, add_statistics
from tidyberg.testing import Warehouse


def test_distinct_counts_are_kept_with_unchanged_blobs(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    before = add_statistics(table, THETA)
    compact(warehouse)
    old, new = table.refresh().metadata.statistics
    assert old == before
    assert new == before.model_copy(update={"snapshot_id": head(table)})
    assert new.blob_metadata[0].snapshot_id == before.snapshot_id  # what it was computed from


def test_statistics_are_kept_over_several_compactions(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    first = add_statistics(table, THETA)
    for region in ("eu", "us"):
        compact(warehouse, options(where=f"region = '{region}'"))
        *_, carried = table.refresh().metadata.statistics
        assert carried == first.model_copy(update={"snapshot_id": head(table)})


def test_statistics_are_dropped_if_rows_were_added_since(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    file = add_statistics(table, THETA)
    append(warehouse, table, [7, 8], "eu")
    compact(warehouse)
    assert table.refresh().metadata.statistics == [file]


def test_statistics_of_an_older_snapshot_than_the_parent_are_not_kept(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    file = add_statistics(table, THETA)
    compact(warehouse, engine=Meddling(lambda: append(warehouse, table, [9], "eu")))
    assert table.refresh().metadata.statistics == [file]


def test_statistics_that_may_be_wrong_now_are_not_kept(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    add_statistics(table, "deletion-vector-v1")
    partitions = PartitionStatisticsFile.model_validate(
        {"snapshot-id": head(table), "statistics-path": "some-partition.stats", "file-size-in-bytes": 10}
    )
    table.catalog.commit_table(table, (), (SetPartitionStatisticsUpdate(partition_statistics=partitions),))
    parent = head(table)
    compact(warehouse)
    metadata = table.refresh().metadata
    assert [file.snapshot_id for file in metadata.statistics] == [parent]
    assert [file.snapshot_id for file in metadata.partition_statistics] == [parent]


def head(table: Table) -> int:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id
