"""`tidyberg metadata-files`: what it reports, what it sets, and what commits delete afterwards."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

import tidyberg
from tests.builders.console import Run
from tidyberg.catalog.metadata_file import send_commit
from tidyberg.commit import properties as properties_commit
from tidyberg.errors import BadInput
from tidyberg.testing import Warehouse, local_path

NAME = "analytics.events"
DELETE, KEEP = "write.metadata.delete-after-commit.enabled", "write.metadata.previous-versions-max"


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    table = warehouse.catalog.load_table(NAME)
    return warehouse.append_files(table, 6, 10, files_per_commit=1).refresh()


def on_disk(table: Table) -> set[str]:
    return {path.name for path in Path(local_path(f"{table.location()}/metadata")).glob("*.metadata.json")}


def tracked(table: Table) -> set[str]:
    metadata = table.refresh().metadata
    return {one.metadata_file.rpartition("/")[2] for one in metadata.metadata_log}


def test_it_reports_and_sets_what_is_kept(run: Run, table: Table, warehouse: Warehouse) -> None:
    before = tracked(table)
    ran = run("metadata-files", NAME)
    assert ran.status == 0, ran.err
    assert f"{len(before)} previous metadata files tracked" in ran.out
    assert f"tidyberg metadata-files {NAME} --keep 100" in ran.out
    assert tracked(table) == before, "a report changes nothing"
    document = run("metadata-files", NAME, "--keep", "3", "--json").json
    assert (document["deletes_old"], document["keep"], document["has_changed"]) == (True, 3, True)
    assert run("metadata-files", NAME, "--keep", "3", "--json").json["has_changed"] is False
    warehouse.append_files(table.refresh(), 2, 10, files_per_commit=1)
    current = table.refresh().metadata_location.rpartition("/")[2]
    assert len(tracked(table)) == 3
    assert on_disk(table) == tracked(table) | {current}
    assert warehouse.rows(table)
    assert run("metadata-files", NAME, "--keep-all", "--json").json["deletes_old"] is False


def test_contradictions_and_bad_numbers_are_refused(run: Run, table: Table) -> None:
    assert run("metadata-files", NAME, "--keep", "0").status == 2
    assert run("metadata-files", NAME, "--keep", "3", "--keep-all").status == 2
    with pytest.raises(BadInput):
        tidyberg.metadata_files(table, keep=10_000_000)
    assert DELETE not in table.refresh().properties


def test_a_commit_that_loses_the_race_is_sent_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other properties that somebody sets meanwhile stay, and the metadata file of the lost attempt goes."""
    send, lost = send_commit, list[str]()

    def late(*args: Any, **kwargs: Any) -> Any:
        if not lost:
            lost.append("once")
            with table.refresh().transaction() as transaction:
                transaction.set_properties({"owner": "somebody"})
        return send(*args, **kwargs)

    monkeypatch.setattr(properties_commit, "send_commit", late)
    assert tidyberg.metadata_files(table, keep=50).keep == 50
    properties = table.refresh().properties
    assert (properties[DELETE], properties[KEEP], properties["owner"]) == ("true", "50", "somebody")
    current = table.metadata_location.rpartition("/")[2]
    assert on_disk(table) == tracked(table) | {current}


def test_an_answer_that_is_lost_is_looked_up(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    send = send_commit

    def deaf(*args: Any, **kwargs: Any) -> Any:
        send(*args, **kwargs)
        raise CommitFailedException("the answer was lost")

    monkeypatch.setattr(properties_commit, "send_commit", deaf)
    versions = len(tracked(table))
    assert tidyberg.metadata_files(table, keep=50).has_changed
    assert len(tracked(table)) == versions + 1
