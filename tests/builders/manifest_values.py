"""Hypothesis strategies for the values of manifest entries."""

from typing import Any

from hypothesis import strategies as st

FLOATS = st.floats(allow_nan=False, width=32)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "float": FLOATS,
    "double": FLOATS,
    "decimal(12, 2)": st.decimals(-(10**10), 10**10, places=2).filter(lambda value: -(10**10) < value < 10**10),
    "string": st.text(max_size=8),
    "binary": st.binary(max_size=8),
    "date": st.integers(-10_000, 40_000),
    "timestamp": st.integers(-(10**14), 10**15),
    "timestamptz": st.integers(-(10**14), 10**15),
    "uuid": st.uuids(),
    "fixed[4]": st.binary(min_size=4, max_size=4),
    "boolean": st.booleans(),
}

MAPS = st.dictionaries(st.integers(1, 200), st.integers(0, 2**40), max_size=5)

BOUNDS = st.dictionaries(st.integers(1, 200), st.binary(max_size=6), max_size=5)

METRICS = st.fixed_dictionaries(
    {},
    optional={
        "column_sizes": MAPS,
        "value_counts": MAPS,
        "null_value_counts": MAPS,
        "nan_value_counts": MAPS,
        "lower_bounds": BOUNDS,
        "upper_bounds": BOUNDS,
        "key_metadata": st.binary(max_size=5),
        "split_offsets": st.lists(st.integers(0, 2**40), max_size=3),
        "sort_order_id": st.integers(0, 5),
    },
)
