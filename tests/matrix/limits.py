"""What readers get wrong by themselves: on files that tidyberg never touched.

`test_limits` sees that each still occurs, and that docs/correctness.md lists it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tests.matrix.filters import Filter
from tests.matrix.shapes import EQUAL_OR_NAN, FLOATS, PRIMITIVE, REQUIRED_MEMBER, TEXTS, TIMES_AND_UUIDS, UNEVEN, Shape

Covers = Callable[[Filter, pa.Table], bool]


@dataclass(frozen=True)
class Limit:
    reader: str
    what: str  # one line, for the docs
    why: str
    covers: Covers | None  # filters, over these rows; None: the files cannot be read at all
    shown_by: tuple[str, Shape | None]  # a writer and a shape whose files show it; Java's writers have one of their own
    writers: frozenset[str] = frozenset()  # files of these only; empty: of all
    error: str = ""  # what it raises; empty: it finds other rows
    # Met on sound files, as the specification asks for them. It excuses outputs although inputs that are written in
    # another way escaped it; all other limits excuse only what the reader did not find in the inputs either.
    by_specification: bool = False


def _values(wanted: Filter, rows: pa.Table) -> pa.ChunkedArray:
    found = rows[wanted.path[0]]
    for member in wanted.path[1:]:
        found = pc.struct_field(found, member)
    return found


def _has_nan(wanted: Filter, rows: pa.Table) -> bool:
    values = _values(wanted, rows)
    return pa.types.is_floating(wanted.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _is_about_nan(wanted: Filter) -> bool:
    return any(isinstance(value, float) and math.isnan(value) for value in wanted.values)


def _nan_is_above_all(wanted: Filter, rows: pa.Table) -> bool:
    """For engines in which NaN equals itself and is larger than all other numbers."""
    return _has_nan(wanted, rows) and (wanted.operation in ("!=", ">", ">=") or _is_about_nan(wanted))


def _arrow_nan(wanted: Filter, rows: pa.Table) -> bool:
    return _has_nan(wanted, rows) and (wanted.operation == "!=" or (wanted.operation == "in" and _is_about_nan(wanted)))


def _zero_in_list(wanted: Filter, _: pa.Table) -> bool:
    is_float = pa.types.is_floating(wanted.type)
    return is_float and wanted.operation == "in" and any(value == 0 for value in wanted.values)


def _is_about_zero(wanted: Filter, _: pa.Table) -> bool:
    is_float = pa.types.is_floating(wanted.type)
    return is_float and wanted.operation in ("=", "in") and any(value == 0 for value in wanted.values)


def _is_member_of_null(wanted: Filter, rows: pa.Table) -> bool:
    """A member that is required, of a struct that is null in some row."""
    if len(wanted.path) == 1:
        return False
    above = _values(replace(wanted, path=wanted.path[:-1]), rows)
    return bool(above.null_count and not above.type.field(wanted.path[-1]).nullable)


def _is_boolean(wanted: Filter, _: pa.Table) -> bool:
    return bool(pa.types.is_boolean(wanted.type))


def _is_null_of_bytes(wanted: Filter, _: pa.Table) -> bool:
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary)
    return wanted.operation in ("is null", "is not null") and any(fits(wanted.type) for fits in kinds)


def _any_filter(wanted: Filter, rows: pa.Table) -> bool:
    return True


LIMITS = (
    Limit(
        "pyarrow",
        "`!=` and `IN` on floating-point columns with NaN",
        "It prunes row groups by minimum and maximum, which say nothing about NaN.",
        _arrow_nan,
        ("arrow-dictionaries", FLOATS),
    ),
    Limit(
        "pyarrow",
        "`IN` with 0.0 or -0.0",
        "It looks for the literal between minimum and maximum bit by bit; the specification has writers store a zero "
        "there as -0.0 and 0.0. Files of DuckDB do not, and escape.",
        _zero_in_list,
        ("arrow-dictionaries", FLOATS),
        by_specification=True,
    ),
    Limit(
        "duckdb",
        "`=`, `!=`, `>`, `>=` and `IN` on floating-point columns with NaN",
        "It prunes row groups by minimum and maximum, although NaN is above every number to it and in no statistics.",
        _nan_is_above_all,
        ("arrow-dictionaries", FLOATS),
    ),
    Limit(
        "duckdb",
        "`IS NULL` on plain texts and bytes where a page has a single value",
        "It treats some of these values as null.",
        _is_null_of_bytes,
        ("arrow-split", TEXTS),
        writers=frozenset({"arrow-split"}),
        by_specification=True,
    ),
    Limit(
        "datafusion",
        "`=`, `!=`, `>`, `>=` and `IN` on floating-point columns with NaN",
        "It prunes row groups and pages by minimum and maximum, although NaN is above every number to it.",
        _nan_is_above_all,
        ("arrow-dictionaries", FLOATS),
    ),
    Limit(
        "datafusion",
        "`=` and `IN` with 0.0 or -0.0 where there are bloom filters",
        "The two zeros are equal to it but have different hashes.",
        _is_about_zero,
        ("arrow-rs-bloom", FLOATS),
        writers=frozenset({"arrow-rs-bloom", "arrow-bloom", "mixed-bytes"}),
    ),
    Limit(
        "datafusion",
        "filters on files that DuckDB wrote in its version V2",
        "arrow-rs cannot skip values of delta-encoded pages whose last miniblock is not padded.",
        _any_filter,
        ("duckdb-v2", PRIMITIVE),
        writers=frozenset({"duckdb-v2", "mixed-all"}),
        error="cannot skip miniblock",
    ),
    Limit(
        "datafusion",
        "required members of structs that are null in some rows",
        "It compares with whatever lies beneath the null.",
        _is_member_of_null,
        ("arrow-dictionaries", REQUIRED_MEMBER),
    ),
    Limit(
        "datafusion",
        "-0.0 is read as 0.0 in files of DuckDB",
        "Where minimum and maximum are equal it treats them as the values; DuckDB says 0.0 there for both zeros.",
        None,
        ("duckdb-v1", FLOATS),
        writers=frozenset({"duckdb-v1", "duckdb-v2"}),
    ),
    Limit(
        "datafusion",
        "NaN is read as a number in columns whose other values are all equal",
        "Where minimum and maximum are equal it treats them as the values; NaN is in neither.",
        None,
        ("arrow-dictionaries", EQUAL_OR_NAN),
    ),
    Limit(
        "duckdb",
        "BYTE_STREAM_SPLIT of decimals, UUIDs and other bytes of fixed length",
        "It knows this encoding of numbers only.",
        None,
        ("arrow-split", TIMES_AND_UUIDS),
        writers=frozenset({"arrow-split"}),
        error="BYTE_STREAM_SPLIT encoding is only supported",
    ),
    Limit(
        "polars",
        "BYTE_STREAM_SPLIT and DELTA_BYTE_ARRAY of decimals, UUIDs and other bytes of fixed length",
        "It knows these encodings of numbers and texts only.",
        None,
        ("arrow-split", TIMES_AND_UUIDS),
        writers=frozenset({"arrow-split", "arrow-delta-bytes"}),
        error="encoded optional parquet pages not yet supported",
    ),
    Limit(
        "datafusion",
        "files of fastparquet that have no rows",
        "Their footer says that its empty list of row groups is one of bytes.",
        None,
        ("fastparquet", UNEVEN),
        writers=frozenset({"fastparquet"}),
        error="Expected list element type",
    ),
)
JAVA_LIMITS = (
    Limit(
        "iceberg-vectorized",
        "filters on booleans in pages of version 2 of Java's own writer",
        "Its vectorized reader does not know their encoding, RLE; a rewrite that decodes them mends it.",
        _is_boolean,
        ("java-v2", None),
        writers=frozenset({"java-v2"}),
        error="with encoding RLE",
    ),
    *(
        Limit(
            reader,
            "`!=`, `>` and `>=` on floating-point columns with NaN",
            "To Spark NaN is above every number, to bounds in manifests, footers and pages it is nothing.",
            _nan_is_above_all,
            ("arrow-dictionaries", FLOATS),
        )
        for reader in ("iceberg-vectorized", "iceberg-rows", "parquet-mr")
    ),
)


def limit_of(reader: str, writer: str, wanted: Filter | None, rows: pa.Table, error: str = "") -> Limit | None:
    """Returns the limit that explains why a reader misses rows, or None. Without a filter, it reads all rows."""
    for limit in (*LIMITS, *JAVA_LIMITS):
        if limit.reader != reader or (limit.writers and writer not in limit.writers):
            continue
        if bool(limit.error) != bool(error) or limit.error not in error:
            continue
        if (limit.covers is None) == (wanted is None) and (wanted is None or limit.covers(wanted, rows)):  # type: ignore[misc]
            return limit
    return None
