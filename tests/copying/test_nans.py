"""NaN counts of copied files come from the inputs' manifests; bounds exist only if all manifests have them."""

import math
import shutil
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.copy_tasks import copy, write_files
from tests.builders.tasks import field
from tidyberg.model.task import NanFacts, TaskInput, WriteSettings, WrittenFile

DOUBLE, SINGLE, INNER = 1, 2, 4
SCHEMA = pa.schema(
    [
        field("double", pa.float64(), DOUBLE),
        field("single", pa.float32(), SINGLE),
        field("place", pa.struct([field("inner", pa.float64(), INNER)]), 3),
    ]
)
FORMATS = {DOUBLE: "<d", SINGLE: "<f", INNER: "<d"}
NAN = math.nan
Values = Sequence[float | None]


def table(values: Values) -> pa.Table:
    """The same values in every column; where they are null, so is the struct."""
    places = [None if value is None else {"inner": value} for value in values]
    return pa.table(
        [pa.array(values, pa.float64()), pa.array(values, pa.float32()), pa.array(places, SCHEMA.field(2).type)],
        schema=SCHEMA,
    )


def reported(column: int, values: Values) -> NanFacts:
    """Returns what a careful writer puts into its manifest."""
    numbers = [value for value in values if value is not None and not math.isnan(value)]
    nans = sum(value is not None and math.isnan(value) for value in values)
    if not nans or not numbers:
        return NanFacts(column, nans)
    return NanFacts(column, nans, *(struct.pack(FORMATS[column], bound) for bound in bounds(numbers)))


def bounds(numbers: Sequence[float]) -> tuple[float, float]:
    lower, upper = min(numbers), max(numbers)
    return (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)


def files(directory: Path, contents: Sequence[Values], **options: Any) -> list[TaskInput]:
    written = write_files(directory, [table(values) for values in contents], **options)
    return [
        replace(file, nans=tuple(reported(column, values) for column in FORMATS))
        for file, values in zip(written, contents, strict=True)
    ]


def one_output(inputs: Sequence[TaskInput], directory: Path, mode: str = "full") -> WrittenFile:
    result = copy(inputs, directory / "out", SCHEMA, write=WriteSettings(metrics_modes=dict.fromkeys(FORMATS, mode)))
    assert (result.mode, result.mode_reason) == ("copy", "")
    (output,) = result.outputs
    return output


def metrics(output: WrittenFile, column: int = DOUBLE) -> tuple[int | None, float | None, float | None]:
    """NaN, lower and upper bound."""
    found = [bound.get(column) for bound in (output.lower_bounds, output.upper_bounds)]
    lower, upper = (None if value is None else struct.unpack(FORMATS[column], value)[0] for value in found)
    return output.nan_value_counts.get(column), lower, upper


def test_nan_is_counted_and_bounds_are_those_of_the_numbers(tmp_path: Path) -> None:
    output = one_output(files(tmp_path, [[1.0, NAN, 3.0, None], [NAN, NAN], [-2.0, 7.0]]), tmp_path)
    assert [metrics(output, column) for column in FORMATS] == [(3, -2.0, 7.0)] * 3


def test_nan_that_one_manifest_does_not_count_is_unknown_in_the_copy(tmp_path: Path) -> None:
    first, second = files(tmp_path, [[1.0, 2.0], [3.0]])
    only_double = tuple(fact for fact in second.nans if fact.field_id == DOUBLE)
    output = one_output([first, replace(second, nans=only_double)], tmp_path)
    assert metrics(output, DOUBLE) == (0, 1.0, 3.0)
    assert metrics(output, SINGLE) == metrics(output, INNER) == (None, None, None)


def test_copies_have_bounds_only_if_every_manifest_has_them(tmp_path: Path) -> None:
    first, second = files(tmp_path, [[1.0, NAN], [3.0, NAN]])
    output = one_output([first, replace(second, nans=(NanFacts(DOUBLE, 1),))], tmp_path)
    assert metrics(output) == (2, None, None)


def test_nan_is_no_bound_even_if_a_manifest_says_so(tmp_path: Path) -> None:
    (file,) = files(tmp_path, [[1.0, NAN]])
    one, nan = (struct.pack("<d", value) for value in (1.0, NAN))
    output = one_output([replace(file, nans=(NanFacts(DOUBLE, 1, one, nan),))], tmp_path)
    assert metrics(output) == (1, None, None)


def test_zeros_bound_both_zeros(tmp_path: Path) -> None:
    low, high = one_output(files(tmp_path, [[0.0, NAN], [-0.0]]), tmp_path), struct.pack("<d", 0.0)
    assert (low.lower_bounds[DOUBLE], low.upper_bounds[DOUBLE]) == (struct.pack("<d", -0.0), high)


def test_a_manifest_that_the_footer_contradicts_is_not_trusted(tmp_path: Path) -> None:
    (file,) = files(tmp_path, [[1.0, NAN, 5.0]])
    wrong = tuple(struct.pack("<d", value) for value in (2.0, 5.0))
    assert metrics(one_output([replace(file, nans=(NanFacts(DOUBLE, 1, *wrong),))], tmp_path)) == (1, None, None)
    impossible = (NanFacts(DOUBLE, 4, *wrong),)
    assert metrics(one_output([replace(file, nans=impossible)], tmp_path)) == (None, None, None)


def test_bounds_of_another_type_are_no_bounds(tmp_path: Path) -> None:
    (file,) = files(tmp_path, [[1.0, NAN]])
    output = one_output([replace(file, nans=(NanFacts(DOUBLE, 1, *[struct.pack("<f", 1.0)] * 2),))], tmp_path)
    assert metrics(output) == (1, None, None)


def test_nan_of_a_divided_file_is_unknown_in_both_outputs(tmp_path: Path) -> None:
    values: list[float | None] = [float(number) for number in range(400)]
    whole = files(tmp_path / "without", [values], row_group_size=100)
    result = copy(whole, tmp_path / "out", SCHEMA, outputs=2)
    assert [metrics(output) for output in result.outputs] == [(0, 0.0, 199.0), (0, 200.0, 399.0)]
    cut = files(tmp_path / "with", [[*values, NAN]], row_group_size=100)
    result = copy(cut, tmp_path / "out", SCHEMA, outputs=2)
    assert [metrics(output) for output in result.outputs] == [(None, None, None)] * 2


def test_copies_follow_the_tables_metrics_modes(tmp_path: Path) -> None:
    inputs = files(tmp_path, [[1.0, NAN], [2.0]])
    assert metrics(one_output(inputs, tmp_path, "counts")) == (1, None, None)
    assert metrics(one_output(inputs, tmp_path, "none")) == (None, None, None)
    assert metrics(one_output(inputs, tmp_path, "truncate(16)")) == (1, 1.0, 2.0)


def test_where_nulls_are_not_counted_there_are_no_bounds(tmp_path: Path) -> None:
    output = one_output(files(tmp_path, [[1.0, NAN], [2.0]], write_statistics=False), tmp_path)
    assert metrics(output) == (1, None, None)


numbers = st.one_of(st.none(), st.floats(width=32), st.sampled_from([NAN, 0.0, -0.0, math.inf, -math.inf]))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(numbers, min_size=1, max_size=30), min_size=1, max_size=4),
    st.sampled_from([3, 10, 100]),
    st.integers(1, 3),
    st.booleans(),
)
def test_nan_metrics_are_true_and_as_complete_as_possible(
    contents: list[list[float | None]], row_group_size: int, outputs: int, statistics: bool
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="tidyberg-nans-"))
    try:
        inputs = files(directory, contents, row_group_size=row_group_size, write_statistics=statistics)
        result = copy(inputs, directory / "out", SCHEMA, outputs=outputs)
        assert result.mode == "copy"
        has_nan = any(value is not None and math.isnan(value) for values in contents for value in values)
        for output in result.outputs:
            read = pq.read_table(output.path)["double"].to_pylist()
            found = [value for value in read if value is not None and not math.isnan(value)]
            nans, lower, upper = metrics(output)
            expected = sum(value is not None and math.isnan(value) for value in read)
            assert nans == expected or (nans is None and has_nan and len(result.outputs) > 1)
            assert (lower is None) == (upper is None)
            if nans is not None and statistics and found and not has_nan:
                assert lower is not None
            if lower is not None and upper is not None:
                assert [repr(lower), repr(upper)] == [repr(bound) for bound in bounds(found)]
        if len(result.outputs) == 1 and statistics and found:
            assert lower is not None
    finally:
        shutil.rmtree(directory)
