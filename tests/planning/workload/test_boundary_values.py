"""The end of a range is a boundary: before a value, or before the next one, written so that it is read again."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, NestedField

from tests.builders.sort_models import ORDERED
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.planning.boundary_text import parse_boundaries
from tidyberg.planning.workload.boundary_values import boundary_text

KEY = SortKey((SortField(1),))
DAY = (date(2026, 11, 9) - date(1970, 1, 1)).days
NOON = int((datetime(2026, 11, 9, 12) - datetime(1970, 1, 1)).total_seconds()) * 1_000_000  # noqa: DTZ001  # a wall clock
EXACT = (
    "boolean",
    "int",
    "long",
    "double",
    "decimal(9,2)",
    "decimal(38,10)",
    "date",
    "timestamp",
    "timestamptz",
    "uuid",
)


@pytest.mark.parametrize(
    ("value", "kind", "before", "after"),
    [
        (5, pa.int64(), "5", "6"),
        (2**63 - 1, pa.int64(), str(2**63 - 1), None),
        (2**31 - 1, pa.int32(), str(2**31 - 1), None),
        (False, pa.bool_(), "false", "true"),
        (True, pa.bool_(), "true", None),
        (DAY, pa.date32(), "2026-11-09", "2026-11-10"),
        (NOON, pa.timestamp("us"), "2026-11-09 12:00:00", "2026-11-09 12:00:00.000001"),
        (NOON // 2 * 2, pa.timestamp("us", "UTC"), "2026-11-09 12:00:00+00:00", "2026-11-09 12:00:00.000001+00:00"),
        (DAY * 86_400_000_000, pa.timestamp("us"), "2026-11-09", "2026-11-09 00:00:00.000001"),
        (86_399_999_999, pa.time64("us"), "23:59:59.999999", None),
        (Decimal("1.50"), pa.decimal128(9, 2), "1.50", "1.51"),
        (0.1, pa.float64(), "0.1", "0.10000000000000002"),
        ("it's", pa.string(), "'it''s'", "'it''s '"),
        ("a\x00b", pa.string(), None, None),
        (UUID(int=7).bytes, pa.uuid(), str(UUID(int=7)), str(UUID(int=8))),
        (b"raw", pa.binary(), None, None),
        (5, pa.timestamp("ns"), None, None),
    ],
)
def test_ends_of_ranges_are_written_as_values(
    value: Any, kind: pa.DataType, before: str | None, after: str | None
) -> None:
    assert boundary_text(value, kind, after=False) == before
    assert boundary_text(value, kind, after=True) == after


def read_again(text: str, kind: Any) -> bytes:
    (boundary,) = parse_boundaries(text, KEY, Schema(NestedField(1, "c", kind)))
    return boundary.value


@given(st.sampled_from(EXACT), st.data())
def test_nothing_lies_between_a_value_and_the_boundary_after_it(name: str, data: st.DataObject) -> None:
    kind = ORDERED[name]
    values = kind.values if name != "double" else st.floats(-1e300, 1e300).filter(bool)
    value = data.draw(values)
    held = value.bytes if isinstance(value, UUID) else value
    before, after = (boundary_text(held, kind.arrow, after=late) for late in (False, True))
    if before is None:
        return  # a year that Python's dates do not have
    assert read_again(before, kind.iceberg) == to_bytes(kind.iceberg, held)  # type: ignore[arg-type]
    if after is not None:
        other = data.draw(values)
        other = other.bytes if isinstance(other, UUID) else other
        assert (other > held) == (not other < _python(read_again(after, kind.iceberg), kind.iceberg))


def _python(raw: bytes, kind: Any) -> Any:
    found: Any = from_bytes(kind, raw)
    return found.bytes if isinstance(found, UUID) else found


@given(st.text(), st.text())
def test_a_text_that_follows_is_beyond_the_boundary_unless_it_goes_on_with_a_control_character(a: str, b: str) -> None:
    after = boundary_text(a, pa.string(), after=True)
    if after is not None and b > a and not (b.startswith(a) and b[len(a)] < " "):
        assert b >= f"{a} "


@given(st.floats(-(2.0**100), 2.0**100, width=32), st.floats(width=32, allow_nan=False))
def test_numbers_of_single_precision_are_divided_too(value: float, other: float) -> None:
    after = boundary_text(value, pa.float32(), after=True)
    assert after is not None
    assert (other > value) == (other >= _python(read_again(after, FloatType()), FloatType()))
