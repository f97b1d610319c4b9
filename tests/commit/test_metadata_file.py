"""Metadata files that tidyberg writes for a catalog: a commit keeps all other fields, even unknown ones."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from tests.builders.finished_groups import commit_all
from tidyberg.testing import Warehouse, local_path


def document(table: Table) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(local_path(table.metadata_location)).read_text())
    return found


def rewrite(table: Table, changed: dict[str, Any]) -> None:
    Path(local_path(table.metadata_location)).write_text(json.dumps(changed))


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_unknown_fields_survive_a_commit(warehouse: Warehouse, format_version: int) -> None:
    table = warehouse.create_table(format_version=format_version)
    warehouse.append_files(table, 4, 10, files_per_commit=2)
    before = document(table)
    keys = [{"key-id": "k1", "encrypted-key-metadata": "aWNlYmVyZw=="}]
    before["encryption-keys"] = keys
    before["snapshots"][0]["key-id"] = "k1"
    before["refs"]["main"]["note"] = "kept"
    before["schemas"][0]["fields"][0]["future"] = [1, 2]
    rewrite(table, before)
    commit_all(table)
    after = document(table.refresh())
    assert after["encryption-keys"] == keys
    assert after["snapshots"][:2] == before["snapshots"]
    assert len(after["snapshots"]) == 3
    assert after["refs"]["main"]["note"] == "kept"
    assert after["refs"]["main"]["snapshot-id"] == after["current-snapshot-id"] == table.metadata.current_snapshot_id
    assert after["schemas"] == before["schemas"]
    assert len(after["metadata-log"]) == len(before["metadata-log"]) + 1


def test_a_metadata_file_says_what_pyiceberg_says_of_the_new_table(warehouse: Warehouse) -> None:
    table = warehouse.create_table()
    warehouse.append_files(table, 4, 10, files_per_commit=2)
    commit_all(table)
    assert document(table.refresh()) == json.loads(table.metadata.model_dump_json())


def test_a_compressed_metadata_file_is_built_on(warehouse: Warehouse) -> None:
    table = warehouse.create_table()
    warehouse.append_files(table, 2, 10)
    plain = Path(local_path(table.metadata_location))
    packed = plain.with_name(plain.name.replace(".metadata.json", ".gz.metadata.json"))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    warehouse.catalog.point_to(table, f"file://{packed}")
    commit_all(table.refresh())
    assert document(table.refresh())["current-snapshot-id"] == table.metadata.current_snapshot_id
    assert len(table.metadata.snapshots) == 2
