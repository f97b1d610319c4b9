"""Tables of several shapes to kill a compaction on, all of four partitions, made untidy again before each kill."""

import random
from collections.abc import Iterator
from enum import StrEnum

import pyarrow as pa
from pyiceberg.table import Table

from tests.builders.events_table import data_files
from tests.builders.sales_table import BY_REGION, SCHEMA
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes

REGIONS = ("asia", "eu", "uk", "us")
_IDS = 50  # few, so that an equality delete finds rows in every file
_ROWS = 30


class Shape(StrEnum):
    APPENDS = "appends"
    DELETES = "deletes"  # version 2: position deletes of a file and of a partition, equality deletes
    VECTORS = "vectors"  # version 3: deletion vectors, equality deletes, row lineage


def rows_of(warehouse: Warehouse, table: Table) -> list[str]:
    """All rows, with their lineage where the table keeps one [I8]."""
    return warehouse.rows(table, lineage=table.metadata.format_version > 2)


def untidy(warehouse: Warehouse, shape: Shape, rng: random.Random) -> list[str]:
    """More small files in each of four partitions, with deletes between them; returns all rows there must be."""
    if not warehouse.catalog.table_exists("db.events"):
        version = 3 if shape is Shape.VECTORS else 2
        warehouse.create_table("db.events", SCHEMA, BY_REGION, format_version=version)
    table = warehouse.catalog.load_table("db.events")
    warehouse.append_files(table, 2, rows=lambda _: _rows(rng))
    if shape is not Shape.APPENDS:
        commit_deletes(table, *_deletes(warehouse, table, shape, rng))
    warehouse.append_files(table, 1, rows=lambda _: _rows(rng))  # has rows that equality deletes must not touch
    return rows_of(warehouse, table)


def _rows(rng: random.Random) -> pa.Table:
    """For one file a partition."""
    rows = [(rng.randrange(_IDS), region, rng.choice([None, rng.randrange(10**9)])) for region in REGIONS * _ROWS]
    ids, regions, amounts = zip(*rows, strict=True)
    columns = [pa.array(ids, pa.int64()), pa.array(regions, pa.string()), pa.array(amounts, pa.int32())]
    return pa.table(columns, ["id", "region", "amount"])


def _deletes(
    warehouse: Warehouse, table: Table, shape: Shape, rng: random.Random
) -> Iterator[Positions | EqualTo | Vectors]:
    for region in REGIONS:
        paths = [file.path for file in data_files(warehouse, table) if file.partition[0] == region]
        rows = {path: rng.sample(range(_ROWS), 5) for path in paths[-2:]}
        if shape is Shape.VECTORS:
            yield Vectors(rows)
        elif rng.random() < 0.5:
            yield Positions(rows)
        else:
            yield from (Positions({path: rows[path]}, file_scoped=True) for path in rows)
        if rng.random() < 0.5:
            yield EqualTo({"id": rng.sample(range(_IDS), 3)}, paths[0])
