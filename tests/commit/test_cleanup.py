"""Which files of a job count as referenced, so that cleaning up keeps them [I6]."""

import pytest

from tests.builders.events_table import make_table, paths
from tidyberg.commit import cleanup
from tidyberg.commit.cleanup import referenced_paths
from tidyberg.commit.manifests import read_manifest
from tidyberg.observe.manifest_list import ListedManifest
from tidyberg.testing import Warehouse
from tidyberg.testing.commits import manifests_of
from tidyberg.testing.deletes import Vectors, commit_deletes

OF_RUN = ("run-c0-m0.avro", "snap-12-0-run.avro", "00001-0a.metadata.json", "00001-0a.gz.metadata.json")


def test_a_live_file_is_referenced_whatever_its_name(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    live = paths(warehouse, table)
    assert referenced_paths(table.refresh(), [live[0], f"{live[0]}-other"], None) == {live[0]}


@pytest.mark.parametrize("name", ["00000-0-data.avro", "data.json", "metadata.json.parquet", "snap-1.avro"])
def test_manifests_are_read_unless_every_name_is_that_of_a_metadata_file(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table = make_table(warehouse).refresh()
    read: list[str] = []

    def reading(io: object, listed: ListedManifest) -> object:
        read.append(listed.path)
        return read_manifest(table.io, listed)

    monkeypatch.setattr(cleanup, "read_manifest", reading)
    referenced_paths(table, OF_RUN, None)
    assert not read
    referenced_paths(table, [*OF_RUN, name], None)
    assert read


def test_entries_of_delete_manifests_have_no_row_ids_even_if_the_list_gives_one(warehouse: Warehouse) -> None:
    """I8: some writers assign a first row id to delete manifests."""
    table = make_table(warehouse, format_version=3)
    commit_deletes(table, Vectors({paths(warehouse, table)[0]: [1]}))
    (listed,) = [manifest for manifest in manifests_of(table.refresh()) if manifest.content]
    wrong = ListedManifest({**listed.fields, 520: 7})
    assert [entry.first_row_id for entry in read_manifest(table.io, wrong).entries] == [None]
