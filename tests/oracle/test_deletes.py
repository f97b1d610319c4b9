"""Java checks the compaction of tables with deletes that Java or other engines wrote."""

import pytest

from tests.builders.engines import Meddling
from tests.builders.java_deletes import change_rows, delete_count, insert, java_deletes, make_table
from tests.builders.java_tables import NAME, arrow_rows, compact
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse

GRANULARITIES = ("file", "partition")
PARTITIONING = {"unpartitioned": "", "by-region": "PARTITIONED BY (region)"}

every_granularity = pytest.mark.parametrize("granularity", GRANULARITIES)
every_partitioning = pytest.mark.parametrize("partitioning", PARTITIONING.values(), ids=PARTITIONING)


@every_granularity
@every_partitioning
def test_position_deletes_of_java(warehouse: Warehouse, java: JavaCatalog, partitioning: str, granularity: str) -> None:
    make_table(java, partitioning, granularity)
    change_rows(java)
    assert delete_count(java) > 0
    before = java.rows(NAME)
    table = warehouse.catalog.load_table(NAME)
    assert arrow_rows(table) == before, "the tests' own reader agrees with Java"

    result = compact(warehouse)

    assert java.rows(NAME) == before
    assert delete_count(java) == 0
    assert result.stats.files_after == (2 if partitioning else 1)
    assert java.rows(NAME, snapshot_id=result.plan.snapshot_id) == before


@every_partitioning
def test_equality_deletes_of_java(warehouse: Warehouse, java: JavaCatalog, partitioning: str) -> None:
    make_table(java, partitioning)
    java_deletes(java, partitioning)
    change_rows(java)
    before = java.rows(NAME)
    table = warehouse.catalog.load_table(NAME)
    assert arrow_rows(table) == before, "the tests' own reader agrees with Java"

    compact(warehouse)

    assert java.rows(NAME) == before
    assert delete_count(java) == 0


def test_equality_deletes_across_changes_of_the_schema(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java)
    java.equality_delete(NAME, {"note": ["note-1"]})
    java.equality_delete(NAME, {"amount": [3, None]})
    java.sql(f"ALTER TABLE {NAME} DROP COLUMN note")
    java.sql(f"ALTER TABLE {NAME} ALTER COLUMN amount TYPE BIGINT")
    java.sql(f"ALTER TABLE {NAME} RENAME COLUMN amount TO total")
    java.sql(f"ALTER TABLE {NAME} ADD COLUMN late STRING")
    java.equality_delete(NAME, {"total": [4], "late": [None]})
    java.sql(f"INSERT INTO {NAME} (id, total) VALUES (500, 4), (501, 3)")
    before = java.rows(NAME)
    assert arrow_rows(warehouse.catalog.load_table(NAME)) == before

    compact(warehouse)

    assert java.rows(NAME) == before
    assert delete_count(java) == 0


def test_deletes_in_an_evolved_spec(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 3")
    java.equality_delete(NAME, {"amount": [1]})
    java.sql(f"ALTER TABLE {NAME} ADD PARTITION FIELD region")
    insert(java, 300, 400)
    insert(java, 400, 500)
    java.equality_delete(NAME, {"amount": [2]}, ("us",))
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 5")
    before = java.rows(NAME)
    specs = f"SELECT spec_id, partition.region, count(*) FROM {NAME}.data_files GROUP BY ALL ORDER BY 1, 2"
    assert [row[:2] for row in java.sql(specs)] == [(0, None), (1, "eu"), (1, "us")]

    compact(warehouse)

    assert java.rows(NAME) == before
    assert java.sql(specs) == [(0, None, 1), (1, "eu", 1), (1, "us", 1)]
    assert delete_count(java) == 0


@pytest.mark.parametrize(
    ("partitioning", "granularity"),
    [("", "partition"), ("PARTITIONED BY (region)", "file")],
    ids=["unpartitioned", "by-region"],
)
def test_java_goes_on_after_deletes_were_removed(
    warehouse: Warehouse, java: JavaCatalog, partitioning: str, granularity: str
) -> None:
    make_table(java, partitioning, granularity)
    java_deletes(java, partitioning)
    compact(warehouse)

    insert(java, 600, 650)
    change_rows(java)
    expected = java.rows(NAME)
    assert delete_count(java) > 0
    java.call("rewrite_position_delete_files", table=NAME, options={"rewrite-all": "true"})
    assert java.rows(NAME) == expected
    java.call("rewrite_manifests", table=NAME)
    assert java.rows(NAME) == expected
    compact(warehouse)
    assert java.rows(NAME) == expected
    assert delete_count(java) == 0
    java.call("expire_snapshots", table=NAME, older_than="2100-01-01 00:00:00", retain_last=1)
    assert java.rows(NAME) == expected == arrow_rows(warehouse.catalog.load_table(NAME))
    java.sql(f"DELETE FROM {NAME} WHERE region = 'eu'")
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE region = 'eu'") == [(0,)]


def test_an_equality_delete_of_java_during_the_job_still_applies(warehouse: Warehouse, java: JavaCatalog) -> None:
    """The race of apache/iceberg#10312, with Java as the other writer."""
    make_table(java)
    java.equality_delete(NAME, {"id": [7]})
    expected = java.rows(NAME)  # during the job, row 8 is deleted and comes back unchanged

    def meddle() -> None:
        java.equality_delete(NAME, {"id": [8]})
        insert(java, 8, 9)

    compact(warehouse, engine=Meddling(meddle))

    assert java.rows(NAME) == expected
    assert delete_count(java) == 1
    compact(warehouse)
    assert java.rows(NAME) == expected
    assert delete_count(java) == 0


@every_granularity
def test_a_rewrite_of_the_delete_files_during_the_job_is_no_conflict(
    warehouse: Warehouse, java: JavaCatalog, granularity: str
) -> None:
    """Java's rewrite keeps the data sequence numbers, so it deletes nothing new."""
    make_table(java, PARTITIONING["by-region"], granularity)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 IN (3, 4)")
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 IN (5, 6)")
    before = java.rows(NAME)

    def rewrite_deletes() -> None:
        ((rewritten, added, *_),) = java.call(
            "rewrite_position_delete_files", table=NAME, options={"rewrite-all": "true"}
        )
        assert rewritten >= added > 0

    result = compact(warehouse, engine=Meddling(rewrite_deletes))

    assert not result.groups_left
    assert java.rows(NAME) == before == arrow_rows(warehouse.catalog.load_table(NAME))


@every_granularity
def test_a_group_that_java_deleted_from_during_the_job_is_planned_again(
    warehouse: Warehouse, java: JavaCatalog, granularity: str
) -> None:
    make_table(java, PARTITIONING["by-region"], granularity)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 3 OR id % 10 = 4")

    result = compact(warehouse, engine=Meddling(lambda: java.sql(f"DELETE FROM {NAME} WHERE id = 100")))

    assert (result.groups_committed, result.job.commits) == (2, 2)
    assert any("planned again" in note and "deleted meanwhile" in note for note in result.job.notes)
    ids = sorted(row[0] for row in java.sql(f"SELECT id FROM {NAME}"))
    assert ids == [i for i in range(300) if i % 10 not in (3, 4) and i != 100]


def test_the_metadata_tables_show_the_removed_deletes(warehouse: Warehouse, java: JavaCatalog) -> None:
    """Entries of removed delete files have the id of our snapshot, and keep both of their sequence numbers."""
    make_table(java, PARTITIONING["by-region"])
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 3")
    java.equality_delete(NAME, {"id": [0, 2]}, ("eu",))
    java.equality_delete(NAME, {"id": [1]}, ("us",))
    entries = f"SELECT data_file.file_path, sequence_number, file_sequence_number FROM {NAME}.entries "
    live = sorted(java.sql(entries + "WHERE status <> 2 AND data_file.content <> 0"))
    assert len(live) > 2
    rows = java.sql(f"SELECT content, count(*), sum(record_count) FROM {NAME}.delete_files GROUP BY 1 ORDER BY 1")

    result = compact(warehouse)

    removed = sorted(
        java.sql(
            "SELECT data_file.file_path, sequence_number, file_sequence_number "
            f"FROM {NAME}.all_entries WHERE status = 2 AND data_file.content <> 0 "
            f"AND snapshot_id = {result.snapshot_id}"
        )
    )
    assert removed == live
    manifests = java.sql(
        "SELECT sum(added_delete_files_count), sum(existing_delete_files_count), sum(deleted_delete_files_count), "
        f"sum(added_data_files_count), sum(deleted_data_files_count) FROM {NAME}.manifests "
        f"WHERE added_snapshot_id = {result.snapshot_id}"
    )
    assert manifests == [(0, 0, len(live), result.stats.files_after, result.stats.files_compacted)]
    (summary,) = java.sql(f"SELECT summary FROM {NAME}.snapshots WHERE snapshot_id = {result.snapshot_id}")[0]
    (positions, equalities) = rows
    assert summary["removed-position-delete-files"] == str(positions[1])
    assert summary["removed-position-deletes"] == str(positions[2])
    assert summary["removed-equality-delete-files"] == str(equalities[1])
    assert summary["removed-equality-deletes"] == str(equalities[2])
    assert summary["removed-delete-files"] == str(len(live))
    assert summary["total-delete-files"] == "0"
    assert summary["total-position-deletes"] == "0"
    assert summary["total-equality-deletes"] == "0"
    assert summary["total-records"] == str(java.sql(f"SELECT count(*) FROM {NAME}")[0][0])


def test_keys_for_the_whole_table_stay_until_every_spec_is_rewritten(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java)
    java.sql(f"ALTER TABLE {NAME} ADD PARTITION FIELD region")
    insert(java, 300, 400)
    insert(java, 400, 500)
    java.sql(f"ALTER TABLE {NAME} DROP PARTITION FIELD region")
    java.equality_delete(NAME, {"amount": [1]})
    before = java.rows(NAME)
    compact(warehouse, where="region = 'eu'")
    assert java.rows(NAME) == before
    assert delete_count(java) == 1
    compact(warehouse)
    assert java.rows(NAME) == before
    assert delete_count(java) == 0
