"""Plans are stored as JSON, and an edited plan is refused."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.scenes import TODAY, Delete, File, Scene, plan_for
from tests.timing import cpu_of
from tidyberg.errors import BadPlan
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import PLAN_FORMAT, InputFile, Rewrite, Skip, Verdict
from tidyberg.model.sizes import MB
from tidyberg.model.sort_key import Curve, SortField, SortKey
from tidyberg.planning.document import options_of, plan_from_json, plan_hash, plan_to_json

SCENE = Scene(
    [File(partition=n % 3, manifest=n % 2) for n in range(60)], [Delete(partition=2)], days=(TODAY - 3, None, TODAY)
)
OPTIONS = PlanOptions(where="day >= current_date - 7 or day is null", max_files=30, parquet={"b": "2", "a": "1"})
PLAN = plan_for(SCENE, OPTIONS)


def test_a_plan_reads_back_equal() -> None:
    assert not PLAN.is_empty
    assert PLAN.left_out
    assert plan_from_json(plan_to_json(PLAN)) == PLAN
    assert plan_from_json(plan_to_json(PLAN).encode()) == PLAN


def test_the_sort_key_of_a_group_reads_back_equal_and_is_hashed() -> None:
    key = SortKey((SortField(3, "bucket[16]", descending=True), SortField(4, nulls_last=True)), order_id=2)
    curve = SortKey((SortField(1), SortField(2)), Curve.HILBERT)
    plans = []
    for wanted in (key, curve):
        plan = replace(PLAN, groups=(replace(PLAN.groups[0], sort_key=wanted), *PLAN.groups[1:]))
        plan = replace(plan, hash=plan_hash(plan))
        assert plan_from_json(plan_to_json(plan)) == plan
        plans.append(plan)
    assert len({PLAN.hash, *(plan.hash for plan in plans)}) == 3


def test_the_hash_ignores_when_the_plan_was_made_and_nothing_else() -> None:
    assert plan_hash(PLAN) == PLAN.hash
    assert plan_hash(replace(PLAN, created_ms=1)) == PLAN.hash
    assert plan_hash(replace(PLAN, target_file_size=1)) != PLAN.hash
    assert plan_hash(replace(PLAN, groups=PLAN.groups[1:])) != PLAN.hash


def test_a_plan_keeps_its_options_with_sizes_resolved() -> None:
    options = options_of(plan_from_json(plan_to_json(PLAN)))
    assert options == replace(
        OPTIONS,
        target_file_size=512 * MB,
        min_file_size=384 * MB,
        max_file_size=int(512 * MB * 1.8),
        max_group_size=1024 * MB,
    )
    assert options.strategy is Strategy.AUTO


def drop(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(name)


def put(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update({name: value})


def in_group(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["groups"][0].update({name: value})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("target_file_size", 5), "was edited"),
        (in_group("outputs", 2), "was edited"),
        (put("hash", "0" * 64), "was edited"),
        (drop("hash"), "was edited"),
        (put("format", PLAN_FORMAT + 1), "newer tidyberg"),
        (put("format", 1), "older tidyberg"),
        (put("format", PLAN_FORMAT - 1), "older tidyberg"),
        (put("format", "1"), "not a tidyberg plan"),
        (drop("format"), "not a tidyberg plan"),
        (drop("groups"), "not complete: groups"),
        (put("surprise", 1), "not complete: surprise"),
        (in_group("surprise", 1), "not complete: groups.0.surprise"),
        (put("snapshot_id", "12"), "not complete: snapshot_id"),
        (in_group("mode", "teleport"), "not complete: groups.0.mode"),
        (in_group("tasks", 9), "is divided among 9 tasks, but has 1 output"),
        (in_group("tasks", 0), "is divided among 0 tasks, but has 1 output"),
        (put("options", {"strategy": "nonsense"}), "options are not valid"),
        (put("options", {"strategy": "auto", "speed": 3}), "options are not valid"),
        (put("options", {}), "options are not valid"),
    ],
)
def test_changed_documents_are_refused(change: Callable[[dict[str, Any]], None], says: str) -> None:
    document = json.loads(plan_to_json(PLAN))
    change(document)
    with pytest.raises(BadPlan) as caught:
        plan_from_json(json.dumps(document))
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"plan"', "[" * 100_000, b"\xff\xfe"])
def test_a_document_that_is_no_plan_is_refused(text: str | bytes) -> None:
    with pytest.raises(BadPlan):
        plan_from_json(text)


def test_ten_times_the_files_are_read_and_written_in_about_ten_times_as_long() -> None:
    def costs(files: int, times: int) -> float:
        plan = plan_for(Scene([File(partition=n % 100) for n in range(files)], days=range(100)))
        assert plan_from_json(plan_to_json(plan)) == plan
        return cpu_of(lambda: plan_from_json(plan_to_json(plan)), times)

    assert costs(10_000, times=2) < 30 * costs(1_000, times=5)


numbers = st.integers(-(2**60), 2**60)
floats = st.floats(allow_nan=False, allow_infinity=False)
positions = st.lists(numbers, max_size=3).map(tuple)
inputs = st.builds(InputFile, st.text(), numbers, numbers, numbers, st.text(), st.none() | numbers)
verdicts = st.builds(Skip, st.text(), st.text()) | st.builds(Rewrite, st.text(), positions, numbers, numbers, floats)


@given(st.lists(inputs, max_size=5).map(tuple), positions, verdicts, floats, st.text(), st.none() | numbers)
def test_the_hash_is_that_of_the_whole_canonical_document(
    files: tuple[InputFile, ...],
    deletes: tuple[int, ...],
    verdict: Verdict,
    score: float,
    path: str,
    number: int | None,
) -> None:
    estimate = replace(PLAN.groups[0].estimate, seconds=score, payback_scans=number)
    values: dict[str, Any] = {"partition_path": path, "score": score}
    groups = [
        replace(group, files=files, deletes=deletes, estimate=estimate, output_spec_id=number, **values)
        for group in PLAN.groups
    ]
    partitions = [replace(one, verdict=verdict, last_write_ms=number, **values) for one in PLAN.partitions]
    changed = replace(PLAN, groups=tuple(groups), partitions=tuple(partitions))
    document = json.loads(plan_to_json(changed))
    del document["hash"], document["created_ms"]
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert plan_hash(changed) == hashlib.sha256(canonical.encode(errors="surrogatepass")).hexdigest()
