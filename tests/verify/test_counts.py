"""What verification by counts accepts and what it must refuse."""

import math
import struct
from typing import Any

import pytest

from tests.builders.rewrite_results import FACTS, SCHEMA, double, facts, group, long, result, written
from tidyberg.errors import VerificationFailed
from tidyberg.model.task import ColumnFacts, TaskResult
from tidyberg.verify.bounds import is_cut_above
from tidyberg.verify.counts import verify_counts


def without(field_id: int) -> dict[int, ColumnFacts]:
    return {key: value for key, value in FACTS.items() if key != field_id}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # Footers without statistics prove nothing and accuse nobody.
        {"input_facts": facts(2, nulls=None, lower=None, upper=None)},
        {"output_facts": facts(2, nulls=None, lower=None, upper=None)},
        # Strings that a writer cut, on the right side.
        {"input_facts": facts(2, lower=b"an", upper=b"zp")},
        # A column promoted from int to long, from float to double.
        {"input_facts": facts(1, lower=struct.pack("<i", 1), upper=struct.pack("<i", 100))},
        {"input_facts": facts(3, lower=struct.pack("<f", -0.5), upper=struct.pack("<f", 2.5))},
        # NaN is no bound, and zero has two signs.
        {"input_facts": facts(3, lower=double(math.nan), upper=double(math.nan))},
        # Files older than the column: nulls were added for them, or a constant.
        {"input_facts": facts(2, values=95, nulls=2)},
        {"input_facts": facts(1, values=90, lower=long(5))},
        # Leaves of lists are not counted in footers.
        {"input_facts": without(5), "output_facts": without(5)},
        # Dropped from the table since: the outputs need not have it.
        {"input_facts": {**FACTS, 9: ColumnFacts(values=100, nulls=0, lower=None, upper=None)}},
    ],
)
def test_a_faithful_rewrite_passes(changes: dict[str, Any]) -> None:
    verify_counts(group(), result(**changes), SCHEMA)


def test_signed_zeros_are_the_same_bound() -> None:
    zero = {"lower": double(-0.0), "upper": double(2.5)}
    first = written(0, 50, lower_bounds={3: double(0.0)})
    outputs = (first, written(1, 50, lower_bounds={3: double(0.0)}))
    verify_counts(
        group(),
        result(
            outputs=outputs,
            input_facts=facts(3, **zero),
            output_facts=facts(3, **{**zero, "lower": double(0.0)}),
        ),
        SCHEMA,
    )


def test_a_column_missing_from_all_inputs_may_be_all_null() -> None:
    empty = {
        "null_value_counts": {2: 50},
        "value_counts": {2: 50},
        "lower_bounds": {},
        "upper_bounds": {},
    }
    outputs = (written(0, 50, **empty), written(1, 50, **empty))
    verify_counts(
        group(),
        result(
            outputs=outputs,
            input_facts=without(2),
            output_facts=facts(2, nulls=100, lower=None, upper=None),
        ),
        SCHEMA,
    )


def test_a_column_missing_from_all_inputs_may_be_one_constant() -> None:
    bounds = {"lower_bounds": {2: b"eu"}, "upper_bounds": {2: b"eu"}, "null_value_counts": {2: 0}}
    outputs = (written(0, 50, **bounds), written(1, 50, **bounds))
    verify_counts(
        group(),
        result(
            outputs=outputs,
            input_facts=without(2),
            output_facts=facts(2, nulls=0, lower=b"eu", upper=b"eu"),
        ),
        SCHEMA,
    )


def deleted(**changes: Any) -> TaskResult:
    """Ten rows less than were read, nulls among them, and bounds that moved inwards."""
    outputs = (
        written(0, 45, lower_bounds={1: long(3)}, upper_bounds={1: long(50)}),
        written(1, 45, lower_bounds={1: long(51)}, upper_bounds={1: long(98)}),
    )
    fewer = {
        1: ColumnFacts(values=90, nulls=0, lower=long(3), upper=long(98)),
        2: ColumnFacts(values=90, nulls=7, lower=b"anna", upper=b"zoe"),
        3: ColumnFacts(values=90, nulls=0, lower=double(-0.5), upper=double(2.5)),
        5: ColumnFacts(values=240, nulls=20, lower=b"a", upper=b"t"),
    }
    values = {"outputs": outputs, "rows_deleted": 10, "rows_written": 90, "output_facts": fewer, **changes}
    return result(**values)


def test_deleted_rows_may_move_bounds_inwards() -> None:
    verify_counts(group(), deleted(), SCHEMA)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (result(group_id=4), "result is that of group 4"),
        (result(rows_read=99, rows_written=99), "99 rows were read, but the manifests count 100"),
        (result(rows_deleted=1), "100 rows were read, but 100 written and 1 deleted make 101"),
        (
            result(outputs=(written(0, 50), written(1, 49))),
            "100 rows were written, but the outputs hold 99",
        ),
        (result(outputs=(written(0, 50), written(0, 50))), "out/0.parquet is named twice"),
        (
            result(outputs=(written(0, 50), written(1, 50, path="file:/in/2.parquet"))),
            "in/2.parquet is named twice or is an input",
        ),
        (result(outputs=(written(0, 100), written(1, 0))), "1.parquet is empty: 1500 bytes, 0 rows"),
        (result(outputs=(written(0, 50), written(1, 50, size=0))), "1.parquet is empty: 0 bytes"),
        (result(output_facts=without(2)), "column name: 100 values before, but the outputs lack the column"),
        (result(output_facts=facts(1, values=99)), "column id: 99 values in 100 rows"),
        (result(output_facts=facts(5, values=239)), "column tags.element: 240 values before, 239 after"),
        (result(input_facts=facts(1, values=101)), "column id: 101 values before in 100 rows"),
        (result(output_facts=facts(2, nulls=8)), "column name: 7 nulls before, 8 after"),
        (result(output_facts=facts(2, nulls=6)), "column name: 7 nulls before, 6 after"),
        (result(input_facts=facts(2, values=95, nulls=4)), "4 nulls before, 7 after (5 values were added"),
        (result(output_facts=facts(1, lower=long(2))), "column id: lowest value 1 before, 2 after"),
        (result(output_facts=facts(1, lower=long(0))), "column id: lowest value 1 before, 0 after"),
        (result(output_facts=facts(1, upper=long(101))), "column id: highest value 100 before, 101 after"),
        (result(output_facts=facts(2, upper=b"zac")), "column name: highest value 'zoe' before, 'zac' after"),
        (result(input_facts=facts(2, lower=b"an", upper=b"zz")), "highest value 'zz' before, 'zoe' after"),
        (result(input_facts=without(1)), "no input has it, yet the outputs hold values from 1 to 100"),
        (
            deleted(output_facts={**deleted().output_facts, 1: ColumnFacts(90, 0, long(-3), long(98))}),
            "column id: lowest value 1 before, -3 after",
        ),
        (
            deleted(output_facts={**deleted().output_facts, 2: ColumnFacts(90, 9, b"anna", b"zoe")}),
            "column name: 7 nulls before, 9 after, though rows were only deleted",
        ),
        (
            result(outputs=(written(0, 50), written(1, 50, value_counts={1: 49}))),
            "column id: the manifest would say 99 values, the footers say 100",
        ),
        (
            result(outputs=(written(0, 50), written(1, 50, null_value_counts={2: 1}))),
            "column name: the manifest would say 8 nulls, the footers say 7",
        ),
        (
            result(outputs=(written(0, 50, lower_bounds={2: b"b"}), written(1, 50))),
            "column name: the manifest would say that 'b' is the lowest value, the footers say 'anna'",
        ),
        (
            result(outputs=(written(0, 50, lower_bounds={1: long(-9)}), written(1, 50))),
            "column id: the manifest would say that -9 is the lowest value, the footers say 1",
        ),
        (
            result(outputs=(written(0, 50), written(1, 50, upper_bounds={2: b"zo"}))),
            "column name: the manifest would say that 'zo' is the highest value, the footers say 'zoe'",
        ),
    ],
)
def test_an_unfaithful_rewrite_is_refused_with_its_numbers(changed: TaskResult, said: str) -> None:
    with pytest.raises(VerificationFailed) as caught:
        verify_counts(group(), changed, SCHEMA)
    assert said in caught.value.message
    assert caught.value.message.startswith("Group 3 (day=2026-11-13)")


def test_many_problems_are_counted_not_all_listed() -> None:
    with pytest.raises(VerificationFailed, match=r"; and \d+ more\."):
        verify_counts(group(), result(rows_read=1, group_id=9, output_facts={}), SCHEMA)


def test_a_group_whose_rows_are_all_deleted_has_no_outputs() -> None:
    gone = result(outputs=(), rows_written=0, rows_deleted=100, output_facts={})
    verify_counts(group(), gone, SCHEMA)


@pytest.mark.parametrize(
    ("cut", "exact", "expected"),
    [
        ("zp", "zoe", True),
        ("zz", "zoe", False),
        ("zp", "zo", True),
        ("", "zo", False),
        ("zoef", "zoe", False),
        ("\ue000", "\ud7ffa", True),
        (b"\x02", b"\x01\xff", True),
        (b"\x03", b"\x01\xff", False),
    ],
)
def test_a_cut_upper_bound_is_a_raised_prefix(cut: str | bytes, exact: str | bytes, expected: bool) -> None:
    assert is_cut_above(cut, exact) is expected
