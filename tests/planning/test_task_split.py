"""Large groups are split among several tasks."""

import pytest

from tidyberg.model.plan import Mode
from tidyberg.planning.task_split import tasks_per_group


@pytest.mark.parametrize(
    ("mode", "moves", "outputs", "row_groups", "parts"),
    [
        ("encode", False, 1, 1_000, 1),
        ("encode", False, 3, 1_000, 1),  # one part could not make fewer files of data that shrink
        ("encode", False, 4, 1_000, 2),
        ("encode", False, 20, 1_000, 10),
        ("encode", False, 20, 3, 3),
        ("encode", False, 20, 1, 1),
        ("encode", True, 20, 1_000, 1),
        ("copy", False, 20, 1_000, 1),
        ("merge", False, 20, 1_000, 1),
        ("sort", False, 20, 1, 20),
    ],
)
def test_a_large_group_is_split_among_tasks_if_it_is_encoded_in_place_or_sorted(
    mode: Mode, moves: bool, outputs: int, row_groups: int, parts: int
) -> None:
    assert tasks_per_group(mode, moves=moves, outputs=outputs, row_groups=row_groups) == parts
