"""Advice on the layout of real tables: bounds from manifests, rows from data files, and predictions that hold."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import parser
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from tidyberg.app import build_control
from tidyberg.control.control import Control
from tidyberg.control.query_advice import QueryAdviser
from tidyberg.control.row_sample import SampleReader
from tidyberg.errors import UnknownTable
from tidyberg.model.options import PlanOptions
from tidyberg.model.scan_reports import ScanReportTotals
from tidyberg.model.table import TableRef
from tidyberg.model.workload import LayoutChoice, QueryAdvice
from tidyberg.observe.file_bounds import read_file_bounds
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.planning.workload.query_log import sql_log
from tidyberg.planning.workload.sampling import FileShare
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "price", DoubleType(), required=False),
    NestedField(3, "url", StringType(), required=False),
    NestedField(4, "point", StructType(NestedField(5, "x", IntegerType(), required=False)), required=False),
    NestedField(6, "region", StringType(), required=False),
    NestedField(7, "tags", ListType(8, StringType(), element_required=False), required=False),
)
ARROW = SCHEMA.as_arrow()
REF = TableRef("lab", ("db",), "events")


def rows(seed: int, count: int = 1500, region: str = "eu") -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": random.integers(0, 100_000, count),
            "price": [None if one < 0.05 else one * 100 for one in random.random(count).tolist()],
            "url": [f"https://example.org/item/{one:05d}" for one in random.integers(0, 5_000, count).tolist()],
            "point": [{"x": one} for one in random.integers(0, 1_000, count).tolist()],
            "region": [region] * count,
            "tags": [["a"]] * count,
        },
        schema=pa.schema([field.remove_metadata() for field in ARROW]),
    )


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path / "lake", name="lab") as lab:
        yield lab


@pytest.fixture
def control(lab: Warehouse, tmp_path: Path) -> Control:
    given = {
        "engine": "inline",
        "catalog": {"name": "lab", **lab.properties},
        "store": {"path": str(tmp_path / "j.db")},
    }
    return build_control(Settings.model_validate(given))


def adviser(control: Control, ref: TableRef = REF) -> QueryAdviser:
    return control.query_adviser(ref, PlanOptions())


def advise(control: Control, text: str, *reports: ScanReportTotals) -> QueryAdvice:
    with control:
        return adviser(control).advise(sql_log(text), reports)


def test_the_files_read_today_are_those_that_a_reader_plans(lab: Warehouse, control: Control) -> None:
    table = lab.create_table("db.events", SCHEMA)
    for number in range(6):
        table.append(rows(number).sort_by("id").slice(number * 200, 400))
    filters = ["id < 20000", "price > 99.9", "url >= 'https://example.org/item/04999'", "price is null", "id = -5"]
    advice = advise(control, ";".join(f"select * from events where {one}" for one in filters))
    planned = {one: len(list(table.scan(row_filter=parser.parse(one)).plan_files())) for one in filters}
    found = {one.text.partition("where ")[2]: one.before for one in advice.filters}
    assert found == planned
    assert 0 < planned["id < 20000"] < 6


def test_the_recommended_layout_reads_what_was_predicted(lab: Warehouse, control: Control) -> None:
    table = lab.create_table("db.events", SCHEMA)
    for number in range(20):
        table.append(rows(number))
    filters = ["id >= 5000 and id < 6000", "id = 70000", "url like 'https://example.org/item/012%' and id > 90000"]
    advice = advise(control, ";".join(f"select * from events where {one}" for one in filters))
    assert advice.best is not None
    assert advice.share > 0.9
    assert advice.sample.rows > 10_000
    assert advice.best == LayoutChoice(("id",))
    ordered = table.scan().to_arrow().sort_by("id")
    table.delete()
    for number in range(20):
        table.append(ordered.slice(number * 1500, 1500))
    planned = sum(
        len(list(table.scan(row_filter=parser.parse(one)).plan_files())) for one in (*filters[:2], "id > 90000")
    )
    predicted = sum(one.after for one in advice.filters)
    assert abs(predicted - planned) <= 0.2 * planned


def test_nested_columns_partitions_and_reports_count(lab: Warehouse, control: Control) -> None:
    spec = PartitionSpec(PartitionField(6, 1000, IdentityTransform(), "region"))
    table = lab.create_table("db.events", SCHEMA, partition_spec=spec)
    for number in range(10):
        table.append(rows(number, region="eu" if number % 2 else "us"))
    shape = '{"all":[{"column":"point.x","operator":"<"},{"column":"point.x","operator":">="}]}'
    others = [
        ScanReportTotals(1, '{"column":"tags.element","operator":"="}'),
        ScanReportTotals(1, '{"column":"gone","operator":"="}'),
    ]
    advice = advise(
        control, "select * from events where region = 'eu' and point.x = 5", ScanReportTotals(1, shape, 100), *others
    )
    assert [name for name, _ in advice.columns] == ["point.x", "region"]
    assert advice.best == LayoutChoice(("point.x",))
    assert (advice.unfiltered, advice.sample.partitions) == (2, 2)
    by_text = {one.text: one for one in advice.filters}
    reported = by_text["reported scans: point.x < ? and point.x >= ?"]
    assert reported.is_typical
    assert reported.before == 10
    assert by_text["select * from events where region = 'eu' and point.x = 5"].before == 5, "partitions skip files too"
    assert by_text["select * from events where region = 'eu' and point.x = 5"].after == 1


def test_a_column_that_files_lack_or_had_under_another_name_is_read(lab: Warehouse, control: Control) -> None:
    table: Table = lab.create_table("db.events", SCHEMA)
    table.append(rows(1))
    with table.update_schema() as update:
        update.rename_column("id", "number")
        update.add_column("fresh", LongType())
    with control:
        inventory = take_inventory(table, pin(table, REF), control.cache)
        sample = SampleReader(table.io, inventory, ["number", "fresh", "point.x"]).read([FileShare(0, 100)])
        bounds = read_file_bounds(table.io, inventory, ["number", "fresh"])
    assert sample.rows.column_names == ["number", "fresh", "point.x"]
    assert sample.rows["fresh"].null_count == sample.rows.num_rows == 100
    assert sample.rows["number"].null_count == 0
    assert bounds.columns["number"].lows[0] <= min(sample.rows["number"].to_pylist())
    assert bounds.columns["fresh"].lows == [None]


def test_a_sample_spends_a_bounded_number_of_bytes(lab: Warehouse, control: Control) -> None:
    table = lab.create_table("db.events", SCHEMA)
    for number in range(4):
        table.append(rows(number))
    with control:
        inventory = take_inventory(table, pin(table, REF), control.cache)
    shares = [FileShare(number, 50) for number in range(4)]
    everything = SampleReader(table.io, inventory, ["id"]).read(shares)
    assert everything.rows.num_rows == 200
    little = SampleReader(table.io, inventory, ["id"], most_bytes=everything.facts.bytes // 4 + 1).read(shares)
    assert little.rows.num_rows == 100
    assert little.facts.bytes < everything.facts.bytes


def test_an_empty_table_and_one_that_does_not_exist(lab: Warehouse, control: Control) -> None:
    lab.create_table("db.events", SCHEMA)
    with control:
        assert "no file" in adviser(control).advise(sql_log("select * from events where id = 5")).why
        assert "no query of the log" in adviser(control).advise(sql_log("select 1")).why
        with pytest.raises(UnknownTable):
            adviser(control, TableRef("lab", ("db",), "nothing")).advise(sql_log("select 1"))
