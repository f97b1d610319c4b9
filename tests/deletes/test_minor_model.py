"""Random deletes of every kind, with random sequence numbers and specs: a minor compaction changes no row."""

import os
import random
from typing import Any

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from tests.builders.control import leftovers
from tests.builders.events_table import BY_REGION, ROWS, append, compact, data_files, make_table, options
from tests.seed import SEED
from tidyberg.model.options import Strategy
from tidyberg.testing import LiveFile, Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes

TABLES = 60 if os.environ.get("TEST_LONG") else 4


@pytest.mark.parametrize("number", range(TABLES))
def test_rows_row_ids_and_data_files_stay(warehouse: Warehouse, number: int) -> None:
    rng = random.Random(SEED * 1000 + number)
    table = make_table(warehouse, BY_REGION)
    for _ in range(rng.randint(1, 3)):
        commit_deletes(table, *(_positions(rng, data_files(warehouse, table)) for _ in range(2)))
        commit_deletes(table, _keys(rng, table, data_files(warehouse, table)))
    if rng.random() < 0.5:
        with table.update_spec() as update:
            update.remove_field("region")
        append(warehouse, table, [6], "eu")
    is_v3 = number % 2 == 0
    if is_v3:
        warehouse.upgrade(table, 3)
        append(warehouse, table, [7], "us")
        files = rng.sample(data_files(warehouse, table), 2)
        commit_deletes(table, Vectors({file.path: rng.sample(range(ROWS), 2) for file in files}))
    for _ in range(2):
        commit_deletes(table, _keys(rng, table, data_files(warehouse, table)))
    if rng.random() < 0.5:  # some deletes are left without a file
        commit_deletes(table, remove=[rng.choice(data_files(warehouse, table)).path])
    before, paths = warehouse.rows(table, lineage=is_v3), [file.path for file in data_files(warehouse, table)]

    compact(warehouse, options(Strategy.DELETES_ONLY))

    assert warehouse.rows(table, lineage=is_v3) == before
    assert [file.path for file in data_files(warehouse, table)] == paths
    deletes = [file for file in warehouse.live_files(table) if file.content is not DataFileContent.DATA]
    ours = [file.referenced_data_file for file in deletes if "tidyberg-" in file.path]
    assert set(ours) <= set(paths)
    assert len(set(ours)) == len(ours), "at most one per data file"
    if is_v3:
        assert all(file.is_vector for file in deletes)
    assert not leftovers(warehouse, table)
    assert compact(warehouse, options(Strategy.DELETES_ONLY)).outcome == "tidy"


def _positions(rng: random.Random, files: list[LiveFile]) -> Positions:
    """Rows of some files of one partition, with a sequence number that their files allow."""
    region = rng.choice(["eu", "us"])
    chosen = rng.sample([file for file in files if file.partition[0] == region], rng.randint(1, 2))
    newest = max(file.sequence_number for file in chosen)
    return Positions(
        {file.path: rng.sample(range(ROWS), rng.randint(1, 3)) for file in chosen},
        file_scoped=len(chosen) == 1 and rng.random() < 0.7,
        sequence_number=rng.choice([None, newest]),
    )


def _keys(rng: random.Random, table: Table, files: list[LiveFile]) -> EqualTo:
    spec_id = table.spec().spec_id
    number = rng.choice([None, rng.choice(files).sequence_number])
    like = None if table.spec().is_unpartitioned() and rng.random() < 0.5 else rng.choice(files).path
    keys: dict[str, list[Any]] = rng.choice(
        [{"id": rng.sample(range(80), 4)}, {"amount": [None, 2], "note": ["note-1", "note-2"]}]
    )
    return EqualTo(keys, like, spec_id=spec_id, sequence_number=number)
