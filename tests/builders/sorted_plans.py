"""Plans whose groups are sorted, and settings that make small groups take the way of large ones."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.sort_key import SortKey
from tidyberg.planning.document import plan_hash

Change = Callable[[FileGroup], FileGroup]


def sorted_plan(plan: Plan, key: SortKey, outputs: int = 4) -> Plan:
    """Returns a plan with one sorted group for each partition that the plan rewrites."""
    by_partition: dict[tuple[int, str], list[FileGroup]] = {}
    for group in plan.groups:
        by_partition.setdefault((group.spec_id, group.partition_path), []).append(group)
    groups = tuple(
        replace(
            some[0],
            group_id=number,
            files=tuple(file for group in some for file in group.files),
            deletes=tuple(sorted({delete for group in some for delete in group.deletes})),
            outputs=outputs,
            mode="sort",
            tasks=1,
            sort_key=key,
        )
        for number, some in enumerate(by_partition.values())
    )
    changed = replace(plan, groups=groups)
    return replace(changed, hash=plan_hash(changed))


def shuffle_small_groups(monkeypatch: pytest.MonkeyPatch, range_bytes: int = 16 * 1024) -> None:
    """Makes every sorted group take the way of a group that is larger than memory, with many maps and ranges."""
    monkeypatch.setattr("tidyberg.execute.tasks.range_sort._MOST_MEMORY_PER_BYTE", 1 << 40)
    monkeypatch.setattr("tidyberg.execute.tasks.range_sort._SMALLEST_RANGE_BYTES", range_bytes)
    monkeypatch.setattr("tidyberg.control.sorted_groups._COPIES", 1 << 40)
    monkeypatch.setattr("tidyberg.execute.tasks.range_sort._SMALL_MAP_BYTES", 1)
    monkeypatch.setattr("tidyberg.execute.tasks.range_sort.RANGE_BYTES", range_bytes)
