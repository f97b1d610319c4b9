"""Copied groups must have exactly the row groups of their files."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.rewrite_results import SCHEMA, group, result
from tidyberg.errors import VerificationFailed
from tidyberg.model.task import TaskResult
from tidyberg.verify.counts import verify_counts

ROW_GROUPS = ((25, 900), (25, 900), (25, 880), (25, 910))
PLANNED = replace(group(), mode="copy")


def copied(**changes: Any) -> TaskResult:
    outputs = tuple(replace(output, split_offsets=(4, 904)) for output in result().outputs)
    facts: dict[str, Any] = {"input_row_groups": ROW_GROUPS, "output_row_groups": ROW_GROUPS, "outputs": outputs}
    return result(mode="copy", **{**facts, **changes})


def test_the_same_row_groups_pass_in_any_order() -> None:
    verify_counts(PLANNED, copied(), SCHEMA)
    verify_counts(PLANNED, copied(output_row_groups=ROW_GROUPS[::-1]), SCHEMA)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"output_row_groups": ROW_GROUPS[:3]}, "4 row groups before, 3 after: 1 are gone and 0"),
        ({"output_row_groups": (*ROW_GROUPS[:3], ROW_GROUPS[0])}, "1 are gone and 1 were in no input"),
        ({"output_row_groups": (*ROW_GROUPS[:3], (25, 911))}, "1 are gone and 1 were in no input"),
        ({"output_row_groups": (*ROW_GROUPS[:3], (24, 910))}, "1 are gone and 1 were in no input"),
        ({"output_row_groups": (*ROW_GROUPS, (25, 900))}, "0 are gone and 1 were in no input"),
        ({"input_row_groups": (), "output_row_groups": ()}, "do not hold the 100 rows that were copied"),
        ({"outputs": result().outputs}, "the manifest would say 2 row groups, the footers say 4"),
    ],
)
def test_any_other_row_groups_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(VerificationFailed, match=said):
        verify_counts(PLANNED, copied(**changes), SCHEMA)


@pytest.mark.parametrize("planned", [group(), replace(PLANNED, deletes=(0,)), replace(PLANNED, output_spec_id=1)])
def test_a_copy_of_rows_that_must_be_encoded_is_refused(planned: Any) -> None:
    with pytest.raises(VerificationFailed, match="it was copied, but the plan says"):
        verify_counts(planned, copied(), SCHEMA)


def test_a_planned_copy_that_was_encoded_is_judged_as_such() -> None:
    verify_counts(PLANNED, result(mode_reason="columns were dropped"), SCHEMA)
