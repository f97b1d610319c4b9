"""The benchmark's table: seeded rows of eleven mixed columns in many small Parquet files, made once and copied."""

import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from benchmarks.delete_files import Deletes, commit_deletes
from tidyberg.execute.kernel.checksum import RowChecksum
from tidyberg.model.inventory import Inventory
from tidyberg.model.table import TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.testing import Warehouse, local_path

# Said outright: for a table that names no codec, PyIceberg writes zstd and Java gzip.
CODEC = {"write.parquet.compression-codec": "zstd", "write.parquet.compression-level": "3"}
TABLE = "db.events"
SMALL_TABLE = "db.small"
NAMES = (
    NestedField(1, "event_id", LongType(), required=False),
    NestedField(2, "event_time", TimestamptzType(), required=False),
    NestedField(3, "user_id", LongType(), required=False),
    NestedField(4, "category", StringType(), required=False),
    NestedField(5, "country", StringType(), required=False),
    NestedField(6, "session", StringType(), required=False),
    NestedField(7, "score", DoubleType(), required=False),
    NestedField(8, "quantity", IntegerType(), required=False),
    NestedField(9, "amount", DecimalType(12, 2), required=False),
    NestedField(10, "mobile", BooleanType(), required=False),
    NestedField(11, "day", DateType(), required=False),
)
SCHEMA = Schema(*NAMES)
_SMALL_ROWS = 800_000  # of the table that warms both sides up
_FIRST_SECOND = 1_790_000_000
_CATEGORIES = np.array([f"category-{number:03d}" for number in range(200)])
_COUNTRIES = np.array([f"{first}{second}" for first in "ABCDEFGHIJ" for second in "PQRSTUVWXYZ"])
_HEXADECIMAL = np.frombuffer(b"0123456789abcdef", np.uint8)
_SESSION_LENGTH = 28


@dataclass(frozen=True, slots=True)
class Size:
    files: int = 100
    rows_per_file: int = 100_000
    deletes: Deletes | None = None


def rows(number: int, count: int) -> pa.Table:
    """The rows of one file: ascending ids and times, skewed categories, ids and doubles with high entropy."""
    random = np.random.default_rng(number)
    seconds = _FIRST_SECOND + number * 600 + np.sort(random.integers(0, 600, count))
    letters = _HEXADECIMAL[random.integers(0, 16, count * _SESSION_LENGTH)]
    offsets = np.arange(0, (count + 1) * _SESSION_LENGTH, _SESSION_LENGTH, dtype=np.int32)
    columns = [
        pa.array(number * count + np.arange(count)),
        pa.array(seconds * 1_000_000 + random.integers(0, 1_000_000, count)).cast(pa.timestamp("us", "UTC")),
        pa.array(random.integers(0, 5_000_000, count)),
        pa.array(_CATEGORIES[np.minimum(random.geometric(0.05, count), 200) - 1]),
        pa.array(_COUNTRIES[random.integers(0, len(_COUNTRIES), count)]),
        pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters)),
        pa.array(random.normal(100, 15, count), mask=random.random(count) < 0.02),
        pa.array(random.integers(1, 50, count).astype(np.int32)),
        _cents(random.integers(0, 10_000_000, count)),
        pa.array(random.random(count) < 0.6),
        pa.array((seconds // 86_400).astype(np.int32)).cast(pa.date32()),
    ]
    return pa.table(columns, names=[field.name for field in NAMES])


def _cents(numbers: "np.ndarray[Any, Any]") -> pa.Array:
    hundredth = pa.scalar(Decimal("0.01"))
    return pc.multiply(pa.array(numbers).cast(pa.decimal128(19, 0)), hundredth).cast(pa.decimal128(12, 2))


class Bench:
    """A directory with a pristine warehouse and a copy, always at the same path, that a side may change."""

    def __init__(self, directory: Path, size: Size) -> None:
        self.directory = directory.absolute()
        self.size = size
        self.live = self.directory / "warehouse"
        self._pristine = self.directory / "pristine"
        self._stamp = self.directory / "stamp.json"

    def prepare(self) -> None:
        """Generate the tables unless they are there already, in this place and size."""
        stamp = json.dumps({"at": str(self.directory), **asdict(self.size)})
        if self._stamp.exists() and self._stamp.read_text() == stamp:
            return
        shutil.rmtree(self.directory, ignore_errors=True)
        with Warehouse(self.live) as warehouse:
            small = max(8, _SMALL_ROWS // self.size.rows_per_file)
            for name, files in ((TABLE, self.size.files), (SMALL_TABLE, small)):
                table = warehouse.create_table(name, SCHEMA, properties=CODEC)
                warehouse.append_files(table, files, rows=lambda number: rows(number, self.size.rows_per_file))
                if self.size.deletes is not None:
                    paths = [task.file.file_path for task in table.scan().plan_files()]
                    deletes = self.size.deletes if name == TABLE else replace(self.size.deletes, equality_files=10)
                    commit_deletes(table, in_order(paths), self.size.rows_per_file, deletes)
        shutil.move(self.live, self._pristine)
        self._stamp.write_text(stamp)

    def restore(self) -> None:
        shutil.rmtree(self.live, ignore_errors=True)
        shutil.copytree(self._pristine, self.live)
        os.sync()  # else the copy is still being written to disk while the clock runs
        os.sync()  # so that nobody's run pays for writing back the copy

    def files(self) -> list[Path]:
        """The live data files of the table at its current snapshot."""
        return [Path(local_path(path)) for path in self._inventory().data_files["path"].to_pylist()]

    def checksum(self) -> str:
        """Of all rows of the rewritten table, in any order. Deletes may be left in it, but none that applies."""
        inventory = self._inventory()
        files = inventory.data_files.sort_by([("partition", "ascending"), ("sequence_number", "ascending")])
        assert not DeleteIndex(files, inventory.delete_files).touched().any(), "deletes still apply to some file"
        checksum = RowChecksum()
        for path in self.files():
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=131_072):
                    checksum.update(batch)
        return checksum.hexdigest()

    def expected_checksum(self) -> str:
        """Of the rows that a rewrite must leave, made anew and not read."""
        checksum = RowChecksum()
        count, deletes = self.size.rows_per_file, self.size.deletes
        for number in range(self.size.files):
            table = rows(number, count)
            if deletes is not None:
                kept = np.ones(count, np.bool_)
                kept[deletes.deleted(number, count, self.size.files)] = False
                table = table.filter(pa.array(kept))
            for batch in table.to_batches():
                checksum.update(batch)
        return checksum.hexdigest()

    def _inventory(self) -> Inventory:
        with Warehouse(self.live) as warehouse:
            table = warehouse.catalog.load_table(TABLE)
            return take_inventory(table, pin(table, TableRef.parse(TABLE, warehouse.name), "main"), ManifestCache())


def in_order(paths: list[str]) -> list[str]:
    """Data files by the number whose rows they hold: their first event id."""

    def first_id(path: str) -> int:
        with pq.ParquetFile(local_path(path)) as file:
            return int(file.metadata.row_group(0).column(0).statistics.min)

    return sorted(paths, key=first_id)
