"""Checks that tidyberg does what Iceberg's own tests require of `rewrite_data_files`.

Java rewrites one of two equal tables, and tidyberg the other one. The rows are always equal. The numbers of files are
equal where both have the same choice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.builders.control import make_control
from tests.oracle.client import JavaCatalog, OracleError
from tidyberg.errors import BadInput, Conflict
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse

OURS, THEIRS = "db.ours", "db.theirs"
BASIC = {"min-input-files": "1"}
FULL = PlanOptions(strategy=Strategy.FULL, min_input_files=1, hot_commits=10_000)
DELETES = PlanOptions(strategy=Strategy.DELETE_FILES, min_input_files=1, max_delete_ratio=0.3, hot_commits=10_000)
BY_C1 = "PARTITIONED BY (c1)"
PATIENT = RetryPolicy()


def insert(files: int, rows: int, partitions: int = 0, first: int = 0) -> str:
    """Returns a statement that writes `files` files in one commit, or one per partition in a partitioned table."""
    c1 = f"CAST(id % {partitions} AS INT)" if partitions else "CAST(id AS INT)"
    return (
        f"INSERT INTO {{table}} SELECT /*+ REPARTITION({files}) */ {c1} AS c1, concat('foo', id) AS c2, "
        f"concat('bar', id % 4) AS c3 FROM range({first}, {first + rows})"
    )


@dataclass(frozen=True)
class Case:
    """The statements that create a table, how both rewrite it, and the numbers of data files before and after."""

    writes: Sequence[str]
    before: int
    after: int
    partitioning: str = ""
    version: int = 2
    where: str | None = None
    java: Mapping[str, str] = field(default_factory=lambda: BASIC)
    ours: PlanOptions = FULL
    granularity: str = "file"


SMALL = {
    "four-files-become-one": Case([insert(4, 400)], 4, 1),
    "four-files-of-version-1-become-one": Case([insert(4, 400)], 4, 1, version=1),
    "four-files-of-version-3-become-one": Case([insert(4, 400)], 4, 1, version=3),
    "eight-files-in-four-partitions-become-four": Case([insert(1, 400, 4)] * 2, 8, 4, BY_C1),
    "a-filter-takes-one-partition": Case([insert(1, 400, 4)] * 2, 8, 7, BY_C1, where="c1 = 1"),
    "what-a-filter-leaves-over-drops-no-rows": Case([insert(2, 100)], 2, 1, where="c3 = 'bar0'"),
    "files-of-an-older-spec-move-to-the-current-one": Case(
        [insert(4, 400), "ALTER TABLE {table} ADD PARTITION FIELD c3"],
        4,
        4,  # one for each of the four values of c3
        ours=replace(FULL, rewrite_to_current_spec=True),
    ),
    "forty-percent-deleted-is-enough": Case(
        [insert(5, 100), "DELETE FROM {table} WHERE c1 % 10 < 4"],
        5,
        1,
        java={"min-input-files": "10", "min-file-size-bytes": "0"},
        ours=DELETES,
    ),
    "twenty-percent-deleted-is-not": Case(
        [insert(5, 100), "DELETE FROM {table} WHERE c1 % 10 < 2"],
        5,
        5,
        java={"min-input-files": "10", "min-file-size-bytes": "0"},
        ours=DELETES,
        granularity="partition",  # with one delete file per data file, tidyberg would count too many delete files
    ),
    "forty-percent-in-deletion-vectors-is-enough": Case(
        [insert(5, 100), "DELETE FROM {table} WHERE c1 % 10 < 4"],
        5,
        1,
        version=3,
        java={"min-input-files": "10", "min-file-size-bytes": "0"},
        ours=DELETES,
    ),
    "a-file-whose-rows-are-all-deleted-becomes-none": Case(
        [insert(1, 50), "DELETE FROM {table} WHERE c1 % 1 = 0"],
        1,
        0,
        java={"delete-file-threshold": "1"},
        ours=DELETES,
    ),
}


@pytest.mark.parametrize("case", SMALL.values(), ids=SMALL)
def test_as_java_does(warehouse: Warehouse, java: JavaCatalog, case: Case) -> None:
    make_twins(java, case)
    rows = java.rows(OURS)
    assert rows == java.rows(THEIRS)

    result = compact(warehouse, replace(case.ours, where=case.where))
    rewritten, added, *_ = java_rewrites(java, case)

    assert data_files(java, OURS) == data_files(java, THEIRS) == case.after
    assert (result.stats.files_compacted, len(outputs_of(java, result))) == (rewritten, added)
    assert java.rows(OURS) == java.rows(THEIRS) == rows


SIZED = {"write.parquet.row-group-size-bytes": "20480"}


def test_a_large_file_is_split_in_two(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_twins(java, Case([insert(1, 40_000)], 1, 2), SIZED)
    target = total_size(java) // 2
    sizes = {"target-file-size-bytes": target, "max-file-size-bytes": 2 * target - 2000}
    check_sized(warehouse, java, sizes, rewritten=1, added=2)


def test_mixed_files_are_split_and_combined(warehouse: Warehouse, java: JavaCatalog) -> None:
    writes = [insert(1, 10_000), insert(1, 10_000, first=10_000), insert(1, 30_000, first=20_000)]
    make_twins(java, Case(writes, 3, 3), SIZED)
    target = total_size(java) // 3
    sizes = {
        "target-file-size-bytes": target + 1000,
        "max-file-size-bytes": target * 15 // 10,
        "min-file-size-bytes": target - 1000,
    }
    check_sized(warehouse, java, sizes, rewritten=3, added=3)


def test_four_medium_files_become_fewer(warehouse: Warehouse, java: JavaCatalog) -> None:
    """They become three files of the target size, or two files below the largest size, which is one file fewer."""
    make_twins(java, Case([insert(4, 40_000)], 4, 3), SIZED)
    target = total_size(java) // 3
    sizes = {
        "target-file-size-bytes": target,
        "max-file-size-bytes": target * 18 // 10,
        "min-file-size-bytes": target - 100,
    }
    check_sized(warehouse, java, sizes, rewritten=4, added=3, ours=2)
    (largest,) = java.sql(f"SELECT max(file_size_in_bytes) FROM {OURS}.data_files")[0]
    assert largest <= sizes["max-file-size-bytes"]


def test_groups_of_two_files_are_committed_at_once(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_twins(java, Case([insert(20, 400)], 20, 10))
    group = total_size(java) // 20 * 2 + 1000
    rows, snapshots = java.rows(OURS), snapshot_count(java)

    result = compact(warehouse, replace(FULL, max_group_size=group))
    java.call("rewrite_data_files", table=THEIRS, options={**BASIC, "max-file-group-size-bytes": str(group)})

    assert len(result.plan.groups) == 10
    assert data_files(java, OURS) == data_files(java, THEIRS) == 10
    assert snapshot_count(java) == snapshots + 1
    assert java.rows(OURS) == java.rows(THEIRS) == rows


def test_groups_can_be_committed_one_by_one(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_twins(java, Case([insert(8, 400)], 8, 4))
    group = total_size(java) // 8 * 2 + 1000
    rows, snapshots = java.rows(OURS), snapshot_count(java)

    compact(warehouse, replace(FULL, max_group_size=group, commit_every=1))
    partial = {"partial-progress.enabled": "true", "partial-progress.max-commits": "4"}
    java.call("rewrite_data_files", table=THEIRS, options={**BASIC, **partial, "max-file-group-size-bytes": str(group)})

    assert snapshot_count(java) == snapshot_count(java, THEIRS) == snapshots + 4
    assert data_files(java, OURS) == data_files(java, THEIRS) == 4
    assert java.rows(OURS) == java.rows(THEIRS) == rows


@pytest.mark.parametrize("version", [1, 2, 3])
def test_outputs_carry_the_starting_sequence_number(warehouse: Warehouse, java: JavaCatalog, version: int) -> None:
    make_twins(java, Case([insert(1, 100, 4)] * 2, 8, 4, BY_C1, version))
    entries = "SELECT DISTINCT sequence_number FROM {}.entries WHERE status = 1"
    starting = getattr(warehouse.catalog.load_table(OURS).metadata, "last_sequence_number", 0)  # version 1 has none

    compact(warehouse, FULL)
    java.call("rewrite_data_files", table=THEIRS, options={**BASIC, "use-starting-sequence-number": "true"})

    assert java.sql(entries.format(OURS)) == java.sql(entries.format(THEIRS)) == [(starting,)]


def test_equality_deletes_that_nothing_needs_are_removed(warehouse: Warehouse, java: JavaCatalog) -> None:
    """The spec has changed. Java needs a second commit to remove them."""
    make_twins(java, Case([insert(1, 40, 2)] * 2, 4, 4, BY_C1))
    for table in (OURS, THEIRS):
        java.equality_delete(table, {"c3": ["bar1"]}, (1,))
        java.equality_delete(table, {"c3": ["bar2"]}, (2,))  # a partition that has no rows
        java.sql(f"ALTER TABLE {table} ADD PARTITION FIELD c3")
        java.sql(insert(1, 40, 2, first=40).format(table=table))
    rows = java.rows(OURS)

    compact(warehouse, replace(FULL, where="c1 = 1"))
    options = {"rewrite-all": "true", "remove-dangling-deletes": "true"}
    java.call("rewrite_data_files", table=THEIRS, options=options, where="c1 = 1")

    assert java.rows(OURS) == java.rows(THEIRS) == rows
    (dangling,) = java.sql(f"SELECT count(*) FROM {OURS}.delete_files WHERE partition.c1 = 1")
    assert dangling == (0,)


def test_an_empty_table_stays_empty(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_twins(java, Case([], 0, 0))
    assert compact(warehouse, FULL).outcome == "tidy"
    java.call("rewrite_data_files", table=THEIRS, options=BASIC)
    assert snapshot_count(java) == 0 == snapshot_count(java, THEIRS)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"target_file_size": 0}, {"target-file-size-bytes": "0"}),
        ({"max_group_size": -5}, {"max-file-group-size-bytes": "-5"}),
        ({"min_input_files": 0}, {"min-input-files": "0"}),
        ({"max_parallelism": -5}, {"max-concurrent-file-group-rewrites": "-5"}),
    ],
    ids=lambda given: next(iter(given)),
)
def test_senseless_options_are_refused(java: JavaCatalog, ours: dict[str, Any], theirs: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=next(iter(ours))):
        PlanOptions(**ours)
    make_twins(java, Case([insert(2, 10)], 2, 2))
    with pytest.raises(OracleError):
        java.call("rewrite_data_files", table=THEIRS, options=theirs)


def test_a_commit_that_fails_leaves_no_files(
    warehouse: Warehouse, java: JavaCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/rest covers commits whose outcome is unknown."""
    make_twins(java, Case([insert(4, 100)], 4, 4))
    table = warehouse.catalog.load_table(OURS)
    before = warehouse.files_on_disk(table)
    commits = []

    def refuse(*_: object, **__: object) -> None:
        commits.append(warehouse.files_on_disk(table) - before)
        raise CommitFailedException("as the test wants")

    monkeypatch.setattr(type(warehouse.catalog), "commit_table", refuse)
    with pytest.raises(Conflict):
        compact(warehouse, FULL, retry=RetryPolicy(retries=1, min_wait_ms=1, max_wait_ms=2))
    assert len(commits) == 2
    assert all(commits), "there was something to leave behind"
    assert warehouse.files_on_disk(table) == before


def make_twins(java: JavaCatalog, case: Case, properties: Mapping[str, str] | None = None) -> None:
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    given = {
        "format-version": str(case.version),
        "write.delete.mode": "merge-on-read",
        "write.delete.granularity": case.granularity,
        **(properties or {}),
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    for table in (OURS, THEIRS):
        java.sql(
            f"CREATE TABLE {table} (c1 INT, c2 STRING, c3 STRING) USING iceberg {case.partitioning} "
            f"TBLPROPERTIES ({listed})"
        )
        for write in case.writes:
            java.sql(write.format(table=table))
        assert data_files(java, table) == case.before


def compact(warehouse: Warehouse, options: PlanOptions, *, retry: RetryPolicy = PATIENT) -> CompactionResult:
    with make_control(warehouse, retry=retry) as control:
        return control.compact(TableRef.parse(OURS, warehouse.name), options, verify=VerifyMode.FULL)


def java_rewrites(java: JavaCatalog, case: Case) -> tuple[Any, ...]:
    condition = {"where": case.where.replace("'", '"')} if case.where else {}
    (result,) = java.call("rewrite_data_files", table=THEIRS, options=case.java, **condition)
    return result


def check_sized(
    warehouse: Warehouse,
    java: JavaCatalog,
    sizes: Mapping[str, int],
    *,
    rewritten: int,
    added: int,
    ours: int | None = None,
) -> None:
    """Rewrites both tables and checks the results. `ours` is the number of files that we add, if it is not Java's."""
    rows = java.rows(OURS)
    options = {name: str(size) for name, size in sizes.items()}
    (theirs,) = java.call("rewrite_data_files", table=THEIRS, options={**BASIC, **options})
    result = compact(
        warehouse,
        replace(
            FULL,
            target_file_size=sizes["target-file-size-bytes"],
            max_file_size=sizes["max-file-size-bytes"],
            min_file_size=sizes.get("min-file-size-bytes"),
        ),
    )
    assert theirs[:2] == (rewritten, added)
    assert (result.stats.files_compacted, len(outputs_of(java, result))) == (rewritten, ours or added)
    assert java.rows(OURS) == java.rows(THEIRS) == rows


def outputs_of(java: JavaCatalog, result: CompactionResult) -> list[tuple[Any, ...]]:
    if result.snapshot_id is None:
        return []
    query = f"SELECT data_file.file_path FROM {OURS}.entries WHERE snapshot_id = {result.snapshot_id} AND status = 1"
    return java.sql(query)


def data_files(java: JavaCatalog, table: str) -> int:
    return int(java.sql(f"SELECT count(*) FROM {table}.data_files")[0][0])


def total_size(java: JavaCatalog) -> int:
    return int(java.sql(f"SELECT sum(file_size_in_bytes) FROM {OURS}.data_files")[0][0])


def snapshot_count(java: JavaCatalog, table: str = OURS) -> int:
    return int(java.sql(f"SELECT count(*) FROM {table}.snapshots")[0][0])
