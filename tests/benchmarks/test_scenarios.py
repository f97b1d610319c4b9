"""Tables of benchmarks have the shapes and the rows that their scenarios say."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.delete_files import Deletes
from benchmarks.rows import KINDS
from benchmarks.scenarios import SCENARIOS
from benchmarks.warehouse import SMALL_TABLE, TABLE, Bench, data_files, inventory_of, sum_of_files, sum_of_rows

from tests.builders.scenarios import tiny
from tidyberg.control.control import Control
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse

WITHOUT_JAVA = [
    name
    for name, found in SCENARIOS.items()
    if not found.by_java and (not found.deletes or not found.deletes.equality_files)
]


def compact(directory: Path, store: Path) -> None:
    with (
        Warehouse(directory) as warehouse,
        Control(lambda _: warehouse.catalog, InlineEngine, SqliteStore(store, is_alive)) as control,
    ):
        options = PlanOptions(strategy=Strategy.FULL, min_input_files=2, force=True)
        assert control.compact(TableRef.parse(TABLE, warehouse.name), options).outcome == "committed"


@pytest.mark.parametrize("name", [name for name in WITHOUT_JAVA if not SCENARIOS[name].partitions])
def test_a_rewrite_leaves_the_rows_that_the_scenario_expects(name: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench", tiny(SCENARIOS[name]))
    expected = bench.prepare()
    bench.restore()
    compact(bench.live, tmp_path / "jobs.db")
    assert bench.rows_left() == expected
    assert len(data_files(bench.inventory())) == 1


def test_deleted_rows_are_not_expected(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tiny(SCENARIOS["position-deletes"]))
    assert bench.prepare().rows == 6 * (40 - 3)
    bench.restore()
    assert bench.inventory().delete_files.num_rows == 6
    with pytest.raises(AssertionError, match="deletes still apply"):
        bench.rows_left()


@pytest.mark.oracle
def test_equality_deletes_are_written_by_java(tmp_path: Path) -> None:
    deletes = Deletes(per_file=0, equality_files=12, keys=4)
    bench = Bench(
        tmp_path / "bench", replace(SCENARIOS["equality-deletes"], files=6, rows_per_file=40, deletes=deletes)
    )
    expected = bench.prepare()
    assert 6 * 40 - 48 <= expected.rows < 6 * 40 - 30
    bench.restore()
    assert bench.inventory().delete_files.num_rows == 12
    compact(bench.live, tmp_path / "jobs.db")
    assert bench.rows_left() == expected


@pytest.mark.oracle
def test_files_of_spark_are_written_by_java(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench", replace(SCENARIOS["spark-files"], files=6, rows_per_file=40))
    expected = bench.prepare()
    bench.restore()
    files = data_files(bench.inventory())
    assert len(files) == 6
    assert all(pq.read_metadata(file).created_by.startswith("parquet-mr") for file in files)
    assert bench.rows_left() == expected
    compact(bench.live, tmp_path / "jobs.db")
    assert bench.rows_left() == expected


def test_a_partitioned_table_has_ten_files_a_partition(tmp_path: Path) -> None:
    whole = SCENARIOS["partitioned"]
    assert (whole.partitions, whole.files) == (1_000, 10_000)
    bench = Bench(tmp_path, replace(tiny(whole), files=20, partitions=2))
    expected = bench.prepare()
    bench.restore()
    partitions = bench.inventory().data_files["partition"].to_pylist()
    assert sorted(Counter(partitions).values()) == [10, 10]
    assert bench.rows_left() == expected
    small = whole.small()
    assert small.files == 10 * small.partitions > 0


def test_each_side_gets_a_fresh_copy(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench", tiny(SCENARIOS["encode"]))
    bench.prepare()
    bench.restore()
    before = data_files(bench.inventory())
    compact(bench.live, tmp_path / "jobs.db")
    bench.restore()
    assert data_files(bench.inventory()) == before


def test_tables_are_made_once(tmp_path: Path) -> None:
    scenario = tiny(SCENARIOS["encode"])
    first = Bench(tmp_path, scenario)
    expected = first.prepare()
    stamp = (tmp_path / "stamp.json").stat().st_mtime_ns
    assert Bench(tmp_path, scenario).prepare() == expected
    assert (tmp_path / "stamp.json").stat().st_mtime_ns == stamp
    assert Bench(tmp_path, scenario.with_files(7)).prepare().rows == 7 * 40


def test_there_is_a_small_table_of_the_same_shape_to_warm_up_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tiny(SCENARIOS["nested"]))
    bench.prepare()
    bench.restore()
    small, large = (data_files(inventory_of(bench.live, name)) for name in (SMALL_TABLE, TABLE))
    assert len(small) == 8
    assert pq.read_schema(small[0]).equals(pq.read_schema(large[0]))


def test_files_to_copy_are_one_big_row_group_each(tmp_path: Path) -> None:
    whole = SCENARIOS["copy"]
    assert whole.files == 40
    assert whole.rows_per_file == whole.row_group_rows == 1_210_000
    bench = Bench(tmp_path, replace(whole, files=1, rows_per_file=121_000, row_group_rows=121_000))
    bench.prepare()
    bench.restore()
    (path,) = data_files(bench.inventory())
    assert pq.read_metadata(path).num_row_groups == 1
    assert 4.6e6 < path.stat().st_size < 6e6


def test_wide_rows_have_200_columns() -> None:
    assert KINDS["wide"](0, 3).num_columns == 200


@pytest.mark.parametrize("kind", list(KINDS))
def test_rows_are_the_same_each_time_and_differ_between_files(kind: str) -> None:
    make = KINDS[kind]
    assert make(5, 30).equals(make(5, 30))
    assert sum_of_rows(make(5, 30)) == sum_of_rows(make(5, 30))
    assert sum_of_rows(make(5, 30)) != sum_of_rows(make(6, 30))


def test_a_sum_of_rows_detects_lost_doubled_and_changed_rows(tmp_path: Path) -> None:
    rows = KINDS["nested"](0, 50)
    path = tmp_path / "rows.parquet"
    pq.write_table(rows.slice(20), path)
    pq.write_table(rows.slice(0, 20), tmp_path / "more.parquet")
    whole = sum_of_rows(rows)
    some, one = sum_of_rows(rows.take(pa.array(range(1, 50)))), sum_of_rows(rows.take(pa.array([1])))
    assert sum_of_files([path, tmp_path / "more.parquet"]) == whole  # in any order
    assert sum_of_files([path]) != whole
    assert one + whole != whole
    assert (some + one).rows == whole.rows
    assert some + one != whole  # one lost, another doubled
