"""Deletes apply to files by scope and by sequence numbers."""

from collections.abc import Callable
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.scenes import NOW, TODAY, Delete, File, Scene, applies, statistics_of
from tests.timing import cpu_of
from tidyberg.model.inventory import Inventory
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.sizes import MB
from tidyberg.planning.decide import make_plan
from tidyberg.planning.deletes import DeleteIndex


def index_of(inventory: Inventory) -> tuple[Inventory, DeleteIndex]:
    """Sorts the files as the index requires."""
    order = [("partition", "ascending"), ("sequence_number", "ascending"), ("path", "ascending")]
    files = inventory.data_files.sort_by(order)
    return inventory, DeleteIndex(files, inventory.delete_files)


def deleted(scene: Scene) -> list[bool]:
    found: list[bool] = index_of(scene.inventory())[1].touched().tolist()
    return found


FILES = [File(sequence=sequence) for sequence in (1, 2, 3)]


def test_a_position_delete_applies_up_to_its_own_sequence_number() -> None:
    assert deleted(Scene(FILES, [Delete("position", sequence=2)])) == [True, True, False]


def test_an_equality_delete_applies_below_its_sequence_number_only() -> None:
    assert deleted(Scene(FILES, [Delete("equality", sequence=2)])) == [True, False, False]


def test_a_delete_that_references_a_file_applies_to_that_file_only() -> None:
    for kind in ("position", "dv"):
        scene = Scene(FILES, [Delete(kind, "file", sequence=3, references="f000001.parquet")])
        assert deleted(scene) == [False, True, False]


def test_only_global_deletes_apply_to_other_partitions() -> None:
    files = [File(partition=0), File(partition=1)]
    days = (TODAY, TODAY - 1)
    assert deleted(Scene(files, [Delete("equality", sequence=5, partition=1)], days=days)) == [False, True]
    scene = Scene(files, [Delete("equality", "global", sequence=5, partition=1)], days=days)
    assert deleted(scene) == [True, True]


def test_a_position_delete_does_not_apply_to_a_file_that_was_added_later() -> None:
    output = File(sequence=2, file_sequence=4)
    assert deleted(Scene([output], [Delete("position", sequence=2)])) == [False]
    assert deleted(Scene([output], [Delete("position", sequence=4)])) == [True]
    assert deleted(Scene([output], [Delete("equality", sequence=3)])) == [True]


def test_a_rewritten_delete_file_applies_to_files_that_were_added_in_between() -> None:
    output = File(sequence=2, file_sequence=4)
    assert deleted(Scene([output], [Delete("position", sequence=3, file_sequence=5)])) == [True]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    partition, sequence, later = st.integers(0, 2), st.integers(0, 4), st.none() | st.integers(0, 6)
    some_files = st.builds(File, partition=partition, sequence=sequence, file_sequence=later)
    files = draw(st.lists(some_files, max_size=8))
    paths = [f"f{n:06d}.parquet" for n in range(len(files) + 1)]
    some_deletes = st.one_of(
        st.builds(
            Delete,
            st.just("position"),
            st.just("partition"),
            partition,
            sequence,
            file_sequence=later,
            format=st.sampled_from(["PARQUET", "AVRO"]),
        ),
        st.builds(
            Delete,
            st.sampled_from(["position", "dv"]),
            st.just("file"),
            partition,
            sequence,
            st.sampled_from(paths),
            format=st.sampled_from(["PARQUET", "PUFFIN"]),
        ),
        st.builds(Delete, st.just("equality"), st.sampled_from(["partition", "global"]), partition, sequence),
    )
    return Scene(files, draw(st.lists(some_deletes, max_size=8)), days=(1, 2, 3))


@settings(max_examples=400, deadline=None)
@given(scenes(), st.randoms(use_true_random=False))
def test_deletes_apply_to_files_and_to_groups_by_the_rules_of_the_specification(scene: Scene, random: Random) -> None:
    inventory, index = index_of(scene.inventory())
    order = [("partition", "ascending"), ("sequence_number", "ascending"), ("path", "ascending")]
    files = inventory.data_files.sort_by(order).to_pylist()
    deletes = index.rows.to_pylist()
    assert sorted(row["path"] for row in deletes) == [row["path"] for row in deletes]
    assert index.touched().tolist() == [any(applies(delete, file) for delete in deletes) for file in files]
    unreadable = [row["format"] != ("PUFFIN" if row["kind"] == "dv" else "PARQUET") for row in deletes]
    assert index.unreadable().tolist() == unreadable
    assert index.touched(index.unreadable()).tolist() == [
        any(bad and applies(delete, file) for delete, bad in zip(deletes, unreadable, strict=True)) for file in files
    ]
    for partition in range(3):
        members = [n for n, file in enumerate(files) if file["partition"] == partition and random.random() < 0.7]
        if members:
            assert index.of_group(np.array(members)).tolist() == [
                n for n, delete in enumerate(deletes) if any(applies(delete, files[m]) for m in members)
            ]


def test_only_deletes_of_one_file_say_how_many_rows_they_remove() -> None:
    def names(path: str, kind: str = "position", records: int = 10) -> Delete:
        return Delete(kind, "file", references=path, sequence=2, records=records)

    files = [File(10_000, path=f"{name}.parquet") for name in "abcd"]
    deletes = [
        names("a.parquet"),
        names("a.parquet", records=5),
        names("b.parquet", records=9_999),
        names("c.parquet"),
        names("c.parquet", "dv", 30),
        Delete("equality", sequence=2, records=7),
        names("gone.parquet"),
    ]
    _, index = index_of(Scene(files, deletes).inventory())
    assert index.rows_known_deleted().tolist() == [15, 100, 30, 0]
    assert index.touched_by_unknown_rows().tolist() == [True] * 4


@pytest.mark.parametrize(("files", "partitions"), [(500, 1), (5_000, 1), (5_000, 5_000)])
def test_ten_times_the_deletes_and_files_take_about_ten_times_as_long(files: int, partitions: int) -> None:
    """Comparing each delete with each file would take a hundred times as long."""
    few = _planning_with_deletes(files // 10, max(1, partitions // 10), deletes=500)
    many = _planning_with_deletes(files, partitions, deletes=5_000)
    for small, large in zip(few, many, strict=True):
        assert cpu_of(large) < 30 * cpu_of(small, times=3)


def _planning_with_deletes(files: int, partitions: int, *, deletes: int) -> tuple[Callable[[], object], ...]:
    piled = [
        Delete(partition=n % partitions, sequence=1 + n % 50)
        if n % 2
        else Delete("position", "file", n % partitions, 1 + n % 50, f"f{n % files:06d}.parquet")
        for n in range(deletes)
    ]
    piled += [Delete("equality", partition=n % partitions, sequence=n % 50) for n in range(deletes // 10)]
    inventory = Scene([File(MB, n % partitions) for n in range(files)], piled, days=range(partitions)).inventory()
    options = PlanOptions(strategy=Strategy.DELETE_FILES)
    planned = partial(make_plan, inventory, statistics_of(inventory, options), options, now_ms=NOW)
    assert len(planned().deletes) > deletes // 2

    def indexed() -> None:
        _, index = index_of(inventory)
        assert index.touched().any()

    return indexed, planned
