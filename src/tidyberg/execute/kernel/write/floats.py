"""Statistics of float columns, computed from their values because footers do not count NaN."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.execute.kernel.write.source_chunks import LOWER, UPPER
from tidyberg.parquet.fields import StatisticsField, changed
from tidyberg.parquet.thrift import BINARY, I64, Struct

_SINGLE = 4  # bytes


@dataclass(frozen=True, slots=True)
class FloatFacts:
    nulls: int = 0
    nans: int = 0
    lower: float | None = None  # without NaN
    upper: float | None = None

    def with_values(self, values: pa.ChunkedArray) -> "FloatFacts":
        nans = pc.is_nan(values)
        count = pc.sum(nans).as_py() or 0
        bounds = pc.min_max(pc.if_else(nans, None, values) if count else values).as_py()
        return FloatFacts(
            self.nulls + values.null_count,
            self.nans + count,
            min(_given(self.lower, bounds["min"]), default=None),
            max(_given(self.upper, bounds["max"]), default=None),
        )

    def statistics(self, value_bytes: int | None) -> Struct:
        """Returns Parquet statistics. By the format's rules no bound is NaN, and a zero bound covers both zeros."""
        found: dict[int, tuple[int, Any] | None] = {StatisticsField.NULLS: (I64, self.nulls)}
        if self.lower is not None and self.upper is not None:
            layout = "<f" if value_bytes == _SINGLE else "<d"
            found[LOWER] = (BINARY, struct.pack(layout, self.lower if self.lower else -0.0))
            found[UPPER] = (BINARY, struct.pack(layout, self.upper if self.upper else 0.0))
        return changed({}, found)


def _given(*bounds: float | None) -> Iterable[float]:
    return [bound for bound in bounds if bound is not None]


def counts_nans(leaf: Leaf) -> bool:
    return bool(pa.types.is_floating(leaf.type)) and not leaf.repeated
