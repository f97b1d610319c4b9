"""Creates demo.events: a week of small files from a streaming job, with one hot day and one tidy day."""

import json
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType, TimestamptzType

from tidyberg.testing import Warehouse, local_path

CATALOG = "demo"
TABLE = "demo.events"

_SCHEMA = Schema(
    NestedField(1, "event_id", LongType(), required=True),
    NestedField(2, "at", TimestamptzType(), required=True),
    NestedField(3, "user_id", LongType(), required=False),
    NestedField(4, "kind", StringType(), required=False),
    NestedField(5, "country", StringType(), required=False),
    NestedField(6, "amount", DoubleType(), required=False),
    NestedField(7, "session", StringType(), required=False),
    NestedField(8, "day", DateType(), required=False),
)
_SPEC = PartitionSpec(PartitionField(8, 1000, IdentityTransform(), "day"))
_KINDS = np.array(["view", "click", "search", "purchase", "signup"])
_COUNTRIES = np.array(["DE", "FR", "IN", "JP", "KE", "NO", "US"])
_DAY_MS = 86_400_000
_ROWS_OF_A_SMALL_FILE = 1_000
_ROWS_OF_THE_TIDY_FILE = 1_050_000  # enough for more than 32 MB


@dataclass(frozen=True)
class _Batch:
    """One commit of the streaming job: some files of one day."""

    day_ms: int
    files: int
    rows: int
    committed_ms: int


def make_events(warehouse: Warehouse, now_ms: int) -> Table:
    """Recreates the table and fills it. Its history looks as if it had grown over a week."""
    _drop(warehouse)
    table = warehouse.create_table(TABLE, _SCHEMA, _SPEC)
    batches = _week(now_ms)
    for number, batch in enumerate(batches):
        warehouse.append_files(table, batch.files, rows=partial(_rows, batch, number * 1000))
    return _backdate(warehouse, table, [batch.committed_ms for batch in batches])


def _week(now_ms: int) -> list[_Batch]:
    today = now_ms - now_ms % _DAY_MS
    tidy = _Batch(today - 7 * _DAY_MS, 1, _ROWS_OF_THE_TIDY_FILE, today - 6 * _DAY_MS + 3_600_000)
    past = [
        _Batch(day, 28, _ROWS_OF_A_SMALL_FILE, day + (part + 1) * _DAY_MS // 4)
        for day in range(today - 6 * _DAY_MS, today, _DAY_MS)
        for part in range(4)
    ]
    hot = [_Batch(today, 6, _ROWS_OF_A_SMALL_FILE, now_ms - minutes * 60_000) for minutes in (8, 6, 4, 2)]
    return [tidy, *past, *hot]


def _rows(batch: _Batch, first_seed: int, file: int) -> pa.Table:
    generator = np.random.default_rng(first_seed + file)
    rows = batch.rows
    # Times end with the day, and for today with the commit.
    latest = min(_DAY_MS, max(batch.committed_ms - batch.day_ms, 1_000))
    milliseconds = batch.day_ms + np.sort(generator.integers(0, latest, rows))
    digits = generator.bytes(16 * rows).hex()
    columns: dict[str, Any] = {
        "event_id": generator.integers(0, 2**62, rows),
        "at": pa.array(milliseconds * 1000, pa.timestamp("us", "UTC")),
        "user_id": generator.integers(1, 50_000, rows),
        "kind": _KINDS[generator.choice(len(_KINDS), rows, p=[0.6, 0.2, 0.1, 0.08, 0.02])],
        "country": _COUNTRIES[generator.integers(0, len(_COUNTRIES), rows)],
        "amount": np.round(generator.gamma(2.0, 20.0, rows), 2),
        "session": [digits[start : start + 32] for start in range(0, len(digits), 32)],
        "day": pa.array([batch.day_ms // _DAY_MS] * rows, pa.int32()).cast(pa.date32()),
    }
    return pa.table(columns, schema=schema_to_pyarrow(_SCHEMA, include_field_ids=False))


def _drop(warehouse: Warehouse) -> None:
    try:
        location = warehouse.catalog.load_table(TABLE).location()
    except NoSuchTableError:
        return
    warehouse.catalog.drop_table(TABLE)
    _remove_files(Path(local_path(location)))


def _remove_files(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def _backdate(warehouse: Warehouse, table: Table, times_ms: list[int]) -> Table:
    """Registers the table again, with metadata that dates each commit back."""
    old = Path(local_path(table.refresh().metadata_location))
    metadata = json.loads(old.read_text())
    when = {snapshot["snapshot-id"]: at for snapshot, at in zip(metadata["snapshots"], times_ms, strict=True)}
    for entry in (*metadata["snapshots"], *metadata["snapshot-log"]):
        entry["timestamp-ms"] = when[entry["snapshot-id"]]
    metadata |= {"last-updated-ms": times_ms[-1], "metadata-log": []}
    new = old.with_name(f"00000-{uuid.uuid4()}.metadata.json")
    new.write_text(json.dumps(metadata))
    warehouse.catalog.drop_table(TABLE)
    for superseded in old.parent.glob("*.metadata.json"):
        if superseded != new:
            superseded.unlink()
    return warehouse.catalog.register_table(TABLE, f"file://{new}")
