"""Decides how many Spark tasks rewrite one large group, so that no core is left alone with it."""

from tidyberg.model.plan import Mode

# Each task writes at least two outputs. Data that compresses better than expected then makes fewer files, not smaller
# ones.
_MIN_OUTPUTS_PER_TASK = 2


def tasks_per_group(mode: Mode, *, moves: bool, outputs: int, row_groups: int) -> int:
    """Returns the number of tasks; 1 means that the group is not split.

    A group that moves to another partition spec is not split, because each task would write its own files for every
    partition. A group that is merged in order is not split, because the outputs of two tasks would overlap. No row
    group is split among tasks either, because each task would decode the rows before its own.
    """
    if mode in ("copy", "merge") or moves:
        return 1
    if mode == "sort":  # rows are divided by their keys, among as many tasks as there are outputs
        return max(1, outputs)
    return max(1, min(outputs // _MIN_OUTPUTS_PER_TASK, row_groups))
