"""Which manifests can share entries, and how entries of other layouts are converted."""

from dataclasses import replace

from pyiceberg.table import Table

from tests.builders.events_table import make_table
from tests.builders.manifest_entries import listed
from tidyberg.commit.manifest_kinds import kinds_of
from tidyberg.control.manifest_plan import info_of
from tidyberg.manifests.encoded_entries import EncodedEntries, read_encoded
from tidyberg.model.manifest import ManifestInfo
from tidyberg.storage.table_files import read_bytes
from tidyberg.testing import Warehouse


def infos(table: Table) -> list[ManifestInfo]:
    return [info_of(one) for one in listed(table)]


def read(table: Table, manifests: list[ManifestInfo]) -> EncodedEntries:
    return read_encoded((info, read_bytes(table.io, info.path)) for info in manifests)


def test_rows_without_ids_share_no_manifest_with_rows_that_have_them(warehouse: Warehouse) -> None:
    table = make_table(warehouse, format_version=3)
    first, *others = infos(table)
    kinds = kinds_of(read(table, [replace(first, first_row_id=None), *others]), 3)
    assert [kind.has_row_ids for kind in kinds.kinds] == [False, True]
    assert kinds.of_manifest == (0, 1, 1, 1, 1, 1)


def test_manifests_without_live_entries_have_a_kind_too(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    entries = read(table, infos(table)[:1])
    assert kinds_of(replace(entries, table=entries.table.slice(0, 0)), 2).of_manifest == (0,)
    assert len(read(table, [])) == 0
