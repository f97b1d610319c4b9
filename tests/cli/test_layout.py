"""`layout`, and sorts in `plan` and `compact`, on a real catalog."""

import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.builders.console import Run
from tidyberg.cli.main import app, main
from tidyberg.testing import Warehouse

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "region", StringType(), required=False)
)
FILES = 10


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Ten files with random ids, in a table with a sort order by id, descending."""
    table = warehouse.catalog.create_table(
        "analytics.random",
        SCHEMA,
        sort_order=SortOrder(SortField(1, IdentityTransform(), SortDirection.DESC)),
    )
    random = np.random.default_rng(5)
    for _ in range(FILES):
        ids = random.integers(0, 10**6, 2_000)
        table.append(pa.table({"id": ids, "region": [f"r{n % 3}" for n in range(len(ids))]}))
    return table


def test_layout_shows_ranges_depth_and_what_a_sort_changes(run: Run, table: Table) -> None:
    ran = run("layout", "analytics.random")
    assert ran.status == 0, ran.err
    assert "10 files by id desc" in ran.out
    assert "deepest overlap" in ran.out
    assert "up to 10" in ran.out
    assert "a lookup by id reads 1 file instead of 10" in " ".join(ran.out.split())
    assert "next: tidyberg compact analytics.random --sort" in ran.out


def test_layout_by_another_column_and_as_json_and_svg(run: Run, table: Table, tmp_path: Path) -> None:
    picture = tmp_path / "layout.svg"
    document = run("layout", "analytics.random", "--by", "region", "--svg", str(picture), "--json").json
    assert (document["order"], document["column"]) == ("region", "region")
    assert len(document["before"]["files"]) == FILES
    assert document["before"]["histogram"] == {str(FILES): FILES}
    assert (document["before"]["files"][0]["low_value"], document["before"]["files"][0]["high_value"]) == ("r0", "r2")
    assert document["before"]["average_depth"] == pytest.approx(FILES)
    assert document["after"]["max_depth"] == 1
    drawn = ElementTree.parse(picture).getroot()
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}rect")) > 2 * FILES


def test_layout_of_a_table_without_an_order_asks_for_a_column(run: Run) -> None:
    ran = run("layout", "analytics.events")
    assert ran.status == 2
    assert "has no sort order" in ran.err
    assert 'Name a column or an order: --by "a, b desc".' in ran.err
    assert "--sort-order" not in ran.err
    assert run("layout", "analytics.events", "--by", "id", "--svg", "/nowhere/x.svg").status == 2


def test_sort_takes_an_order_also_if_flags_come_before_the_table(run: Run, table: Table, config: Path) -> None:
    flags = ("--config", str(config), "--catalog", "lab")
    assert "order by region\n" in run("plan", *flags, "analytics.random", "--sort", "region").out
    assert run("plan", *flags, "--sort", "analytics.random").out.count("order by id desc\n") == 1


@pytest.mark.parametrize("path", ["", "x" * 300])
def test_a_picture_that_cannot_be_written_is_bad_input(run: Run, tmp_path: Path, path: str) -> None:
    for command in (("layout", "analytics.events", "--by", "id"), ("storage", "analytics.events")):
        ran = run(*command, "--svg", str(tmp_path / path), "--json")
        assert (ran.status, ran.json["error"]["code"]) == (2, "bad-input")


def test_plan_prices_a_sort_and_says_when_it_pays_back(run: Run, table: Table) -> None:
    ran = run("plan", "analytics.random", "--sort")
    assert ran.status == 0, ran.err
    assert "order by id desc" in ran.out
    assert "sort by id desc: a lookup reads 1 file instead of 10, costs $" in ran.out
    assert "pays back after" in ran.out
    plan = run("plan", "analytics.random", "--sort-order", "id", "--json").json
    (group,) = plan["groups"]
    assert (group["mode"], group["sort_key"]["order_id"]) == ("sort", None)
    assert (
        run("plan", "analytics.random", "--sort-order", "id desc", "--json").json["groups"][0]["sort_key"]["order_id"]
        == 1
    )
    curve = run("plan", "analytics.random", "--hilbert", "id,region", "--json").json
    assert curve["groups"][0]["sort_key"]["curve"] == "hilbert"


def test_a_plan_with_boundaries_says_what_queries_between_them_read(run: Run, table: Table, tmp_path: Path) -> None:
    low, high = 200_000, 700_000
    ran = run("plan", "analytics.random", "--sort", "--boundaries", f"{high}, {low}")
    assert ran.status == 0, ran.err
    assert f"cut at {low}, {high}" in ran.out
    assert "a query between two boundaries reads " in ran.out
    document = str(tmp_path / "plan.json")
    assert run("plan", "analytics.random", "--sort", "--boundaries", f"{low},{high}", "--out", document).status == 0
    explained = run("explain", document)
    assert "rows are sorted and cut at 2 boundaries" in " ".join(explained.out.split())
    assert run("apply", document).status == 0
    again = run("plan", "analytics.random", "--sort", "--boundaries", f"{low},{high}", "--json").json
    assert again["groups"] == []
    assert again["boundaries"]["asked"] == [str(low), str(high)]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--sort-order", "nope"), "no column nope"),
        (("--sort-order", ""), "The sort order is empty"),
        (("--sort=",), "The sort order is empty"),
        (("--sort", "region,"), "ends where a column is expected"),
        (("--sort", "nope"), "no column nope"),
        (("--zorder", "id"), "at least 2 columns"),
        (("--sort", "--zorder", "id,region"), "exclude each other"),
        (("--sort", "--strategy", "full"), "does not go with the strategy full"),
        (("--sort-order", "day(id)"), "does not apply to column id"),
        (("--sort", "--boundaries", "x"), "'x' is not a value of column id"),
        (("--sort-order", "bucket(4,id)", "--boundaries", "1"), "begins with bucket[4] of id"),
        (("--zorder", "id,region", "--boundaries", "1"), "boundaries do not go with zorder"),
        (("--boundaries", "1"), "boundaries need a sort order"),
    ],
)
def test_a_bad_order_is_an_error_of_the_caller(run: Run, table: Table, flags: tuple[str, ...], words: str) -> None:
    ran = run("plan", "analytics.random", *flags)
    assert ran.status == 2
    assert words in ran.err.replace("\n", " ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("analytics.random", "--sort", "region desc"),
        ("--sort", "region desc", "analytics.random"),
        ("analytics.random", "--sort=region desc"),
        ("analytics.random", "--sort-order", "region desc"),
    ],
)
def test_the_order_may_follow_the_flag_that_means_the_order_of_the_table(
    run: Run, table: Table, arguments: tuple[str, ...]
) -> None:
    assert "order by region desc" in run("plan", *arguments).out


def test_a_column_may_follow_the_flag_if_the_table_is_named(run: Run, table: Table) -> None:
    assert "order by region" in run("plan", "analytics.random", "--sort", "region").out


@pytest.mark.parametrize(
    "arguments",
    [("analytics.random", "--sort"), ("--sort", "analytics.random"), ("--sort", "random")],
)
def test_a_table_after_the_flag_is_no_order(run: Run, table: Table, arguments: tuple[str, ...]) -> None:
    assert "order by id desc" in run("plan", *arguments).out


def test_an_empty_column_is_no_order_of_the_table(run: Run, table: Table) -> None:
    ran = run("layout", "analytics.random", "--by", "")
    assert ran.status == 2
    assert "The sort order is empty" in ran.err


def test_the_picture_is_xml_whatever_names_and_values_hold(run: Run, warehouse: Warehouse, tmp_path: Path) -> None:
    name = "x<b>&\x1b[31m\ufffe]]>"
    schema = Schema(NestedField(1, name, StringType(), required=False))
    table = warehouse.catalog.create_table('analytics.<"&', schema)
    for first in "\x00a":
        table.append(pa.table({name: [f"{first}<&\x08", "z]]>"]}))
    picture = tmp_path / "layout.svg"
    ran = run("layout", 'analytics.<"&', "--by", f'"{name}"', "--svg", str(picture))
    assert ran.status == 0, ran.err
    title = ElementTree.parse(picture).getroot().find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == 'The files of analytics.<"& over x<b>&\ufffd[31m\ufffd]]>'


def test_a_sort_that_is_refused_does_not_make_the_table_tidy(run: Run, warehouse: Warehouse) -> None:
    table = warehouse.catalog.create_table("analytics.same", SCHEMA)
    for _ in range(2):
        table.append(pa.table({"id": [7, 7], "region": ["a", "b"]}))
    out = run("plan", "analytics.same", "--sort", "id").out
    assert "no gain: every row has the same id" in out
    assert "nothing to do: a sort would gain nothing" in out
    assert "it is tidy" not in out


def test_an_order_on_the_command_line_wins_over_settings_that_move_files(run: Run, table: Table, config: Path) -> None:
    config.write_text(config.read_text() + "compaction: {rewrite_to_current_spec: true}\n")
    assert run("layout", "analytics.random").status == 0
    assert "order by id desc" in run("plan", "analytics.random", "--sort").out


@pytest.mark.parametrize("encoding", ["ascii", "cp437"])
def test_the_bars_are_drawn_in_ascii_where_the_encoding_has_no_blocks(
    config: Path, table: Table, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """The encoding cp437 has a few of the blocks."""
    shown = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown, encoding, write_through=True))
    assert main(app, ["layout", "analytics.random"]) == 0
    lines = shown.getvalue().decode(encoding).splitlines()
    (now,) = (line for line in lines if line.startswith("  now "))
    (after,) = (line for line in lines if line.startswith("after "))
    assert (set(now.split()[1]), set(after.split()[1])) == ({"#"}, {"."})
    assert sum("#" * 10 in line for line in lines) == 1 + FILES
    assert not any("?" in line for line in lines)
