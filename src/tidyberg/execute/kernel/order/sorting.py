"""Sorts rows by a key, and checks that rows are sorted."""

import pyarrow as pa

from tidyberg.execute.kernel.order.curve_space import CurveSpace, sampled_space
from tidyberg.execute.kernel.order.keys import FixedLevel, Level, Positions, sort_levels
from tidyberg.execute.kernel.order.values import as_table, key_sources
from tidyberg.execute.kernel.order.word_sort import first_unsorted, positions_by
from tidyberg.model.sort_key import SortKey


def sorted_positions(rows: pa.Table | pa.RecordBatch, key: SortKey, space: CurveSpace | None = None) -> Positions:
    """Returns the positions of the rows in the order of the key. Rows with equal keys keep their order.

    A curve takes its coordinates from `space`. Without one, the rows themselves say where values are.
    """
    table = as_table(rows)
    return positions_by(levels_of(table, key, space), table.num_rows)


def is_sorted(rows: pa.Table | pa.RecordBatch, key: SortKey, space: CurveSpace | None = None) -> bool:
    """Returns True if the rows are in the order of the key."""
    table = as_table(rows)
    return first_unsorted(levels_of(table, key, space), table.num_rows) is None


def levels_of(table: pa.Table, key: SortKey, space: CurveSpace | None = None) -> list[Level]:
    """Returns the levels of the key for rows that are compared with each other."""
    if key.curve is not None:
        return [FixedLevel((space or sampled_space(table, key)).indexes(table))]
    return sort_levels([source.of(table) for source in key_sources(table.schema, key)], key.fields)
