"""Decides from a file's footer that no key of an equality delete can match any of its rows.

The bounds of a column chunk cover all its values, so a file whose values all lie outside the range of the deleted keys
need not be read. Only types whose bounds every writer gives exactly or too wide are compared: whole numbers, dates,
times and strings.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.columns.metrics import FactCollector
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.equality import EqualityDeletes
from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import ColumnFacts


def cannot_match(
    file: OpenFile, reader: Reader, schema: pa.Schema, constants: Mapping[int, Any], keys: EqualityDeletes
) -> bool:
    """Returns True if the values of one key column are all outside the range of the deleted ones."""
    columns = leaves(schema)
    file_schema = reader.file_schema(file)
    collector = FactCollector(columns, constants, own=False)
    collector.add(file.footer, file_schema.selection, file_schema.leaves)
    facts = collector.facts()
    return any(
        leaf.field_id is not None
        and leaf.field_id in facts
        and _is_outside(facts[leaf.field_id], leaf.type, keys.values(number))
        for number, leaf in enumerate(columns)
    )


def _is_outside(facts: ColumnFacts, kind: pa.DataType, deleted: pa.Array) -> bool:
    if facts.lower is None or facts.upper is None or (deleted.null_count and facts.nulls != 0):
        return False  # null equals null, and no bound covers it
    if len(deleted) == deleted.null_count:
        return True  # only null is deleted, and the file has none
    if is_number(kind):
        numbers = pc.min_max(deleted.cast(pa.int32() if kind.bit_width == 32 else pa.int64()))
        lower, upper = (int.from_bytes(bound, "little", signed=True) for bound in (facts.lower, facts.upper))
        return bool(numbers["max"].as_py() < lower or numbers["min"].as_py() > upper)
    if is_text(kind):
        texts = pc.min_max(deleted.cast(pa.large_binary()))  # bytes have the order of UTF-8 in Parquet and Arrow
        return bool(texts["max"].as_py() < facts.lower or texts["min"].as_py() > facts.upper)
    return False


def is_number(kind: pa.DataType) -> bool:
    """Returns True for whole numbers, dates and times, whose bounds are numbers of the same width."""
    types = pa.types
    return bool(
        types.is_int32(kind)
        or types.is_int64(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_time64(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
