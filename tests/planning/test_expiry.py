"""Which snapshots and refs expire, against a model that asks of each snapshot alone whether something keeps it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.errors import BadInput
from tidyberg.model.expiry import ExpireOptions, ExpiryBounds, ExpiryDecision, RefInfo
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.expiry import decide_expiry, missing_ids, unused_ids, within_bounds

NOW = 1_000_000
Properties = dict[str, str]


def snapshot(number: int, parent: int | None, time: int) -> SnapshotInfo:
    return SnapshotInfo(number, parent, number, time, "append")


def chain(*times: int) -> dict[int, SnapshotInfo]:
    """Snapshots 1, 2, 3, … each the parent of the next."""
    return {n: snapshot(n, n - 1 if n > 1 else None, time) for n, time in enumerate(times, start=1)}


def branch(name: str, number: int, **retention: int) -> RefInfo:
    return RefInfo(name, number, is_branch=True, **retention)


def tag(name: str, number: int, **retention: int) -> RefInfo:
    return RefInfo(name, number, is_branch=False, **retention)


def expired(
    snapshots: dict[int, SnapshotInfo],
    refs: list[RefInfo],
    options: ExpireOptions | None = None,
    properties: Properties | None = None,
) -> tuple[list[int], list[str]]:
    decision = decide_expiry(snapshots, refs, properties or {}, options or ExpireOptions(older_than_ms=100), NOW)
    assert set(decision.snapshot_ids).isdisjoint(decision.retained)
    assert {*decision.snapshot_ids, *decision.retained} == set(snapshots)
    return list(decision.snapshot_ids), [ref.name for ref in decision.refs]


OLD, YOUNG = NOW - 1000, NOW - 10
LINE = chain(OLD, OLD + 1, OLD + 2, YOUNG, YOUNG + 1)


def test_a_branch_keeps_what_is_newer_than_the_cutoff() -> None:
    assert expired(LINE, [branch("main", 5)]) == ([1, 2, 3], [])


def test_a_snapshot_exactly_as_old_as_the_cutoff_stays() -> None:
    assert expired(chain(NOW - 101, NOW - 100, NOW), [branch("main", 3)]) == ([1], [])


def test_a_branch_keeps_its_newest_snapshots_whatever_their_age() -> None:
    assert expired(LINE, [branch("main", 3)], ExpireOptions(100, retain_last=2))[0] == [1]


def test_the_walk_ends_at_the_first_old_snapshot_even_if_an_ancestor_is_young() -> None:
    assert expired(chain(YOUNG, OLD, YOUNG), [branch("main", 3)])[0] == [2, 1]


def test_heads_stay_even_if_no_snapshot_has_to_be_kept() -> None:
    refs = [branch("main", 5), branch("audit", 2, max_snapshot_age_ms=1)]
    numbers, _ = expired(LINE, refs, ExpireOptions(0), {"history.expire.min-snapshots-to-keep": "0"})
    assert numbers == [1, 3, 4]


def test_settings_of_a_branch_are_stronger_than_arguments_and_properties() -> None:
    properties = {"history.expire.max-snapshot-age-ms": "5", "history.expire.min-snapshots-to-keep": "1"}
    refs = [branch("main", 5, max_snapshot_age_ms=2000)]
    assert expired(LINE, refs, ExpireOptions(0, retain_last=1), properties)[0] == []
    refs = [branch("main", 5, max_snapshot_age_ms=1, min_snapshots_to_keep=4)]
    assert expired(LINE, refs, ExpireOptions(10_000, retain_last=5), properties)[0] == [1]


def test_arguments_are_stronger_than_properties_and_properties_than_defaults() -> None:
    properties = {"history.expire.max-snapshot-age-ms": "500", "history.expire.min-snapshots-to-keep": "4"}
    assert expired(LINE, [branch("main", 5)], ExpireOptions(), properties)[0] == [1]
    assert expired(LINE, [branch("main", 5)], ExpireOptions(100, retain_last=1), properties)[0] == [1, 2, 3]
    days = 24 * 60 * 60 * 1000
    line = chain(NOW - 6 * days, NOW - 5 * days, NOW)
    assert expired(line, [branch("main", 3)], ExpireOptions())[0] == [1]


def test_a_negative_age_is_a_cutoff_in_the_future_as_in_java() -> None:
    properties = {"history.expire.max-snapshot-age-ms": "-5"}
    decision = decide_expiry(LINE, [branch("main", 5)], properties, ExpireOptions(), NOW)
    assert (decision.snapshot_ids, decision.cutoff_ms) == ((1, 2, 3, 4), NOW + 5)


@pytest.mark.parametrize("text", ["five", "", str(2**63), str(-(2**64))])
def test_a_property_that_java_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="max-snapshot-age-ms"):
        decide_expiry(LINE, [branch("main", 5)], {"history.expire.max-snapshot-age-ms": text}, ExpireOptions(), NOW)


def test_a_tag_keeps_its_snapshot_and_none_of_its_ancestors() -> None:
    decision = decide_expiry(LINE, [branch("main", 5), tag("q1", 2)], {}, ExpireOptions(100), NOW)
    assert decision.snapshot_ids == (1, 3)
    assert decision.retained[2] == ("tag q1",)
    refs = [branch("main", 5, min_snapshots_to_keep=1), tag("q1", 3)]
    assert expired(LINE, refs, ExpireOptions(100, retain_last=3))[0] == [1, 2]


def test_refs_expire_by_their_own_age_or_the_tables_and_main_never() -> None:
    refs = [branch("main", 3), tag("own", 1, max_ref_age_ms=5000), tag("tables", 1), branch("b", 2)]
    numbers, gone = expired(LINE, refs, properties={"history.expire.max-ref-age-ms": "500"})
    assert (numbers, gone) == ([2], ["tables", "b"])
    assert expired(LINE, refs)[1] == []


def test_a_ref_exactly_as_old_as_allowed_stays() -> None:
    refs = [branch("main", 5), tag("a", 1, max_ref_age_ms=1000), tag("b", 1, max_ref_age_ms=999)]
    assert expired(LINE, refs)[1] == ["b"]


def test_a_ref_to_a_missing_snapshot_goes_with_a_warning() -> None:
    decision = decide_expiry(LINE, [branch("main", 5), tag("lost", 99)], {}, ExpireOptions(100), NOW)
    assert [ref.name for ref in decision.refs] == ["lost"]
    assert decision.warnings == ("tag lost points to snapshot 99, which does not exist",)


def test_snapshots_outside_of_all_branches_stay_while_they_are_young() -> None:
    snapshots = {**chain(OLD, YOUNG), 7: snapshot(7, 1, YOUNG), 8: snapshot(8, 1, OLD)}
    decision = decide_expiry(snapshots, [branch("main", 2)], {}, ExpireOptions(100), NOW)
    assert decision.snapshot_ids == (1, 8)
    assert decision.retained[7] == ("not in any branch, but newer than the cutoff",)


def test_an_ancestor_of_a_branch_is_not_kept_for_its_youth_alone() -> None:
    """The branch has a stricter setting than the table."""
    assert expired(LINE, [branch("main", 5, max_snapshot_age_ms=1)])[0] == [1, 2, 3, 4]


def test_named_snapshots_go_whatever_their_age_unless_a_ref_points_to_them() -> None:
    refs = [branch("main", 5), tag("q1", 2)]
    assert expired(LINE, refs, ExpireOptions(10_000, snapshot_ids=(4,)))[0] == [4]
    with pytest.raises(BadInput, match="tag q1 points to it"):
        expired(LINE, refs, ExpireOptions(10_000, snapshot_ids=(2,)))


def test_a_named_snapshot_whose_ref_expires_goes() -> None:
    refs = [branch("main", 5), tag("q1", 2, max_ref_age_ms=1)]
    assert expired(LINE, refs, ExpireOptions(10_000, snapshot_ids=(2,))) == ([2], ["q1"])


@pytest.mark.parametrize("value", ["false", "FALSE", "no", ""])
def test_tables_without_garbage_collection_are_refused(value: str) -> None:
    with pytest.raises(BadInput, match=r"gc\.enabled"):
        expired(LINE, [branch("main", 5)], properties={"gc.enabled": value})
    assert expired(LINE, [branch("main", 5)], properties={"gc.enabled": "True"})[0]


def test_a_property_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadInput, match="not a number"):
        expired(LINE, [branch("main", 5)], properties={"history.expire.max-ref-age-ms": "5d"})


def test_damaged_metadata_with_a_loop_ends() -> None:
    snapshots = {1: snapshot(1, 2, YOUNG), 2: snapshot(2, 1, YOUNG)}
    assert expired(snapshots, [branch("main", 2)])[0] == []


def test_unused_and_missing_ids() -> None:
    assert unused_ids([0, 1, 2, 3], {1}, 3) == (0, 2)
    assert missing_ids(LINE, (1, 2)) is None
    assert missing_ids(LINE, (1, 9)) == "There is no snapshot 9 among 5 snapshots."


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[int, SnapshotInfo], list[RefInfo], Properties, ExpireOptions]:
    count = draw(st.integers(0, 12))
    times = st.integers(NOW - 40, NOW)
    snapshots = {
        n: snapshot(n, draw(st.none() | st.integers(1, n - 1)) if n > 1 else None, draw(times))
        for n in range(1, count + 1)
    }
    ages = st.none() | st.integers(1, 40)
    refs = [branch("main", draw(st.integers(1, count)))] if count else []
    for number in range(draw(st.integers(0, 4))):
        target, is_branch = draw(st.integers(1, count + 1)), draw(st.booleans())
        settings = (
            draw(ages),
            draw(ages) if is_branch else None,
            draw(st.none() | st.integers(1, 5)) if is_branch else None,
        )
        refs.append(RefInfo(f"ref{number}", target, is_branch, *settings))
    properties = {
        name: str(draw(st.integers(0, 40)))
        for name in draw(
            st.sets(
                st.sampled_from(
                    [f"history.expire.{e}" for e in ("max-snapshot-age-ms", "min-snapshots-to-keep", "max-ref-age-ms")]
                )
            )
        )
    }
    named = draw(st.sets(st.integers(1, count), max_size=2)) if count else set()
    options = ExpireOptions(draw(ages), draw(st.none() | st.integers(1, 5)), tuple(sorted(named)))
    return snapshots, refs, properties, options


def first_given(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def is_kept(
    number: int, snapshots: dict[int, SnapshotInfo], refs: list[RefInfo], properties: Properties, options: ExpireOptions
) -> bool:
    """The rules once more, from the snapshot's point of view."""

    def property_of(name: str, default: int) -> int:
        return int(properties.get(f"history.expire.{name}", default))

    def line(head: int) -> list[int]:
        found = []
        at: int | None = head
        while at in snapshots:
            assert at is not None
            found.append(at)
            at = snapshots[at].parent_id
        return found

    age = NOW - snapshots[number].timestamp_ms
    usual_age = first_given(options.older_than_ms, property_of("max-snapshot-age-ms", 5 * 86_400_000))
    for ref in refs:
        if not ref.is_branch:
            if ref.snapshot_id == number:
                return True
            continue
        ancestors = line(ref.snapshot_id)
        if number not in ancestors:
            continue
        position = ancestors.index(number)
        longest = first_given(ref.max_snapshot_age_ms, usual_age)
        fewest = first_given(ref.min_snapshots_to_keep, options.retain_last, property_of("min-snapshots-to-keep", 1))
        newer = ancestors[: position + 1]
        if position == 0 or all(
            place < fewest or NOW - snapshots[one].timestamp_ms <= longest for place, one in enumerate(newer)
        ):
            return True
    is_referenced = any(number in (line(ref.snapshot_id) if ref.is_branch else [ref.snapshot_id]) for ref in refs)
    return not is_referenced and age <= usual_age


@given(tables())
def test_the_decision_is_that_of_the_model(
    drawn: tuple[dict[int, SnapshotInfo], list[RefInfo], Properties, ExpireOptions],
) -> None:
    snapshots, refs, properties, options = drawn
    longest = int(properties.get("history.expire.max-ref-age-ms", 2**63))
    staying = [
        ref
        for ref in refs
        if ref.name == "main"
        or (
            ref.snapshot_id in snapshots
            and NOW - snapshots[ref.snapshot_id].timestamp_ms <= first_given(ref.max_ref_age_ms, longest)
        )
    ]
    heads = {ref.snapshot_id for ref in staying}
    if heads & set(options.snapshot_ids):
        with pytest.raises(BadInput, match="points to it"):
            decide_expiry(snapshots, refs, properties, options, NOW)
        return
    decision = decide_expiry(snapshots, refs, properties, options, NOW)
    kept = {number for number in snapshots if is_kept(number, snapshots, staying, properties, options)}
    assert set(decision.retained) == kept - set(options.snapshot_ids)
    assert set(decision.snapshot_ids) == set(snapshots) - set(decision.retained)
    assert {ref.name for ref in decision.refs} == {ref.name for ref in refs} - {ref.name for ref in staying}
    assert heads & set(snapshots) <= set(decision.retained)


def bounded(decision: ExpiryDecision, ids: tuple[int, ...], refs: tuple[str, ...] = ()) -> ExpiryDecision:
    found = within_bounds(decision, ExpiryBounds(ids, refs))
    assert {*found.snapshot_ids, *found.retained} == {*decision.snapshot_ids, *decision.retained}
    assert set(found.snapshot_ids).isdisjoint(found.retained)
    return found


def test_within_bounds_only_what_was_planned_expires() -> None:
    refs = [branch("main", 5), tag("old", 2, max_ref_age_ms=1), tag("older", 1, max_ref_age_ms=1)]
    decision = decide_expiry(LINE, refs, {}, ExpireOptions(older_than_ms=100), NOW)
    assert (decision.snapshot_ids, len(decision.refs)) == ((1, 2, 3), 2)
    assert bounded(decision, (1, 2, 3, 4), ("old", "older")).snapshot_ids == (1, 2, 3)
    assert bounded(decision, (3,), ("old", "older")).snapshot_ids == (3,)
    assert bounded(decision, ()).snapshot_ids == ()


def test_within_bounds_a_ref_that_stays_keeps_its_snapshot() -> None:
    """It was set after the plan, and is already older than its own limit."""
    refs = [branch("main", 5), tag("new", 2, max_ref_age_ms=1)]
    decision = decide_expiry(LINE, refs, {}, ExpireOptions(older_than_ms=100), NOW)
    found = bounded(decision, (1, 2, 3))
    assert (found.snapshot_ids, found.refs) == ((1, 3), ())
