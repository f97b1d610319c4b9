"""Into how many tasks a large group is divided, so that no core is left alone with it."""

from tidyberg.model.plan import Mode

# Each part writes that many outputs: data that compress better than before shall make fewer files, not smaller ones.
_FEWEST_OUTPUTS = 2


def part_count(mode: Mode, *, moves: bool, outputs: int, row_groups: int) -> int:
    """Rows that move are not divided: each part would write files of its own for every partition.

    Nor are row groups to be decoded by many tasks, for each would decode what comes before its rows.
    """
    if mode == "copy" or moves:
        return 1
    return max(1, min(outputs // _FEWEST_OUTPUTS, row_groups))
