"""`tidyberg storage`: what is typed, and what is printed."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyiceberg.table import Table

import tidyberg
from tests.builders.aged_tables import add_old_snapshots
from tests.builders.console import Run
from tidyberg.testing import Warehouse, local_path

NAME = "analytics.events"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return add_old_snapshots(warehouse, warehouse.catalog.load_table(NAME))


def test_it_says_who_holds_the_bytes_and_what_frees_them(run: Run, table: Table) -> None:
    ran = run("storage", NAME)
    assert ran.status == 0, ran.err
    text = " ".join(ran.out.split())
    for words in ("live data", "old snapshots", "metadata", "branch main", "tag q1", "a month", "older than 30 d"):
        assert words in text
    assert "older than 5 d (the table's setting)" in text
    assert f"tidyberg expire {NAME}" in text
    assert "2 snapshots and 2 files would go" in text
    assert "█" in ran.out


@pytest.mark.parametrize(
    ("age_ms", "label"),
    [(2**63 - 1, "never (the table's setting)"), (-5, "all but what branches and tags keep (the table's setting)")],
)
def test_an_unusual_age_of_the_table_has_a_plain_label(run: Run, table: Table, age_ms: int, label: str) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": str(age_ms)})
    ran = run("storage", NAME)
    assert ran.status == 0, ran.err
    assert label in " ".join(ran.out.split())


def test_json_adds_up(run: Run, warehouse: Warehouse, table: Table) -> None:
    document = run("storage", NAME, "--json").json
    total = sum(Path(path).stat().st_size for path in warehouse.files_on_disk(table))
    assert document["total"]["bytes"] == total
    assert sum(one["bytes"] for one in document["slices"].values()) == total
    assert sum(one["bytes"] for one in document["holdings"]) == total
    assert {one["command"].split()[1] for one in document["actions"]} == {
        "compact",
        "rewrite-manifests",
        "expire",
        "orphans",
    }
    assert document["missing"] == {"files": 0, "first": None}


def test_the_picture_is_an_svg(run: Run, table: Table, tmp_path: Path) -> None:
    ran = run("storage", NAME, "--svg", str(tmp_path / "bytes.svg"))
    assert ran.status == 0, ran.err
    root = ElementTree.parse(tmp_path / "bytes.svg").getroot()
    words = "".join(root.itertext())
    assert root.tag.endswith("svg")
    assert f"Who holds the bytes of {NAME}" in words
    assert "tag q1" in words
    refused = run("storage", NAME, "--svg", str(tmp_path / "none" / "bytes.svg"))
    assert refused.status == 2
    assert "There is no directory" in refused.err


def test_problems_are_shown(run: Run, warehouse: Warehouse, table: Table) -> None:
    Path(local_path(next(file.path for file in warehouse.live_files(table)))).unlink()
    (Path(local_path(table.location())) / "data" / "lost.parquet").write_bytes(b"x")
    text = " ".join(run("storage", NAME).out.split())
    assert "1 referenced file missing" in text
    assert "1 orphan (1 B) younger than 3 days" in text
    Path(local_path(table.metadata.snapshots[0].manifest_list)).write_bytes(b"x")
    text = " ".join(run("storage", NAME).out.split())
    assert "1 metadata file cannot be read, so nothing is called an orphan" in text
    assert "orphans or unknown" in text


def test_the_python_api_returns_the_report(run: Run, table: Table) -> None:
    report = tidyberg.storage_report(table)
    assert report.total.bytes == run("storage", NAME, "--json").json["total"]["bytes"]
