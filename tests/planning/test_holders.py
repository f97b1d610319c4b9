"""Every file has one holder, against a model of plain sets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.model.expiry import RefInfo
from tidyberg.model.storage_report import Holder, StoredBytes, StoredKind
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.holders import OF_THE_TABLE, UNREFERENCED, ExpiryLevels, FilesOnDisk, attribute, expiry_levels

DAY = 86_400_000
NOW = 100 * DAY
AGES = (0, DAY, 5 * DAY)
KINDS = list(StoredKind)


def snapshot(number: int, parent: int | None, days_ago: float) -> SnapshotInfo:
    return SnapshotInfo(number, parent, number, NOW - round(days_ago * DAY), "append")


def test_a_snapshot_has_the_level_of_the_smallest_age_that_retains_it() -> None:
    history = {n: snapshot(n, n - 1 or None, days) for n, days in enumerate((40, 20, 3, 0.5, 0.1), start=1)}
    found = expiry_levels(history, [RefInfo("main", 5, is_branch=True)], {}, NOW)
    assert found.ages_ms == (0, DAY, 5 * DAY, 30 * DAY)
    assert dict(found.levels) == {5: 0, 4: 1, 3: 2, 2: 3, 1: 4}
    assert [found.expired(number) for number in range(4)] == [4, 3, 2, 1]
    assert found.own_age_ms == 5 * DAY


def test_the_tables_own_age_is_among_the_ages() -> None:
    properties = {"history.expire.max-snapshot-age-ms": str(2 * DAY), "gc.enabled": "false"}
    found = expiry_levels({1: snapshot(1, None, 3)}, [RefInfo("main", 1, is_branch=True)], properties, NOW)
    assert found.ages_ms == (0, DAY, 2 * DAY, 5 * DAY, 30 * DAY)
    assert found.own_age_ms == 2 * DAY


def test_what_the_table_keeps_by_number_is_never_freed() -> None:
    history = {1: snapshot(1, None, 40), 2: snapshot(2, 1, 30)}
    properties = {"history.expire.min-snapshots-to-keep": "2"}
    found = expiry_levels(history, [RefInfo("main", 2, is_branch=True)], properties, NOW)
    assert dict(found.levels) == {1: 0, 2: 0}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[int], dict[int, set[int]], dict[int, int], list[RefInfo]]:
    """Sizes and kinds of files, the files of each snapshot, the level of each snapshot, and refs."""
    number = draw(st.integers(0, 12))
    sizes = draw(st.lists(st.integers(0, 2**60), min_size=number, max_size=number))
    kinds = draw(st.lists(st.integers(0, len(KINDS) - 1), min_size=number, max_size=number))
    files = st.sets(st.integers(0, number - 1)) if number else st.just(set[int]())
    snapshots = draw(st.dictionaries(st.integers(1, 5), files, min_size=1))
    levels = {one: draw(st.integers(0, len(AGES))) for one in snapshots}
    names = draw(st.lists(st.sampled_from(["main", "a", "b", "c"]), unique=True))
    refs = [RefInfo(name, draw(st.sampled_from(sorted(snapshots))), is_branch=name == "main") for name in names]
    return sizes, kinds, snapshots, levels, refs


@given(tables())
def test_every_byte_is_counted_once_and_for_the_right_holder(
    table: tuple[list[int], list[int], dict[int, set[int]], dict[int, int], list[RefInfo]],
) -> None:
    sizes, kinds, snapshots, levels, refs = table
    file_levels = [
        min((levels[one] for one, files in snapshots.items() if number in files), default=UNREFERENCED)
        for number in range(len(sizes))
    ]
    on_disk = FilesOnDisk(
        np.array(sizes, np.int64),
        np.array(kinds, np.int8),
        np.array(file_levels, np.int8),
        [np.array(sorted(snapshots[ref.snapshot_id]), np.int64) for ref in refs],
    )
    found = attribute(on_disk, refs, ExpiryLevels(AGES, AGES[1], levels))

    expected: dict[tuple[Holder, StoredKind, str, int | None], list[int]] = {}
    for number in range(len(sizes)):
        who: tuple[Holder, str, int | None]
        heads = [ref for ref in refs if number in snapshots[ref.snapshot_id]]
        others = [ref for ref in heads if ref.name != "main"]
        if len(others) < len(heads):
            who = (Holder.CURRENT, "branch main", None)
        elif others:
            who = (Holder.REF, str(others[0]), None) if len(others) == 1 else (Holder.SEVERAL_REFS, "", None)
        elif file_levels[number] == UNREFERENCED:
            who = (Holder.ORPHAN, "", None)
        else:
            ages = [age for at, age in enumerate(AGES) if file_levels[number] > at]
            who = (Holder.HISTORY, "", max(ages, default=None))
        expected.setdefault((who[0], KINDS[kinds[number]], who[1], who[2]), []).append(sizes[number])
    assert {(one.holder, one.kind, one.ref, one.expires_at_ms): one.stored for one in found.holdings} == {
        who: StoredBytes(len(held), sum(held)) for who, held in expected.items()
    }

    for ref in found.refs:
        own = next(one for one in refs if str(one) == ref.ref)
        files = snapshots[own.snapshot_id]
        rest = set[int]().union(*(snapshots[one.snapshot_id] for one in refs if one is not own))
        assert ref.total == StoredBytes(len(files), sum(sizes[one] for one in files))
        assert ref.only == StoredBytes(len(files - rest), sum(sizes[one] for one in files - rest))
    for at, age in enumerate(found.ages):
        kept = set[int]().union(*(files for one, files in snapshots.items() if levels[one] <= at))
        gone = set[int]().union(*snapshots.values()) - kept
        assert age.freed == StoredBytes(len(gone), sum(sizes[one] for one in gone))
        assert age.snapshots == sum(level > at for level in levels.values())


def test_files_of_the_table_itself_are_never_freed() -> None:
    on_disk = FilesOnDisk(np.array([7]), np.array([6], np.int8), np.array([OF_THE_TABLE], np.int8), [])
    found = attribute(on_disk, [], ExpiryLevels(AGES, 0, {}))
    assert [(one.holder, one.kind) for one in found.holdings] == [(Holder.TABLE, StoredKind.METADATA_JSON)]
    assert {one.freed for one in found.ages} == {StoredBytes()}


def test_nothing_is_called_an_orphan_if_something_could_not_be_read() -> None:
    on_disk = FilesOnDisk(np.array([7]), np.array([0], np.int8), np.array([UNREFERENCED], np.int8), [])
    found = attribute(on_disk, [], ExpiryLevels(AGES, 0, {}), is_complete=False)
    assert [one.holder for one in found.holdings] == [Holder.UNKNOWN]
