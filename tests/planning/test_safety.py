"""Files with deletes to apply, of other formats or encrypted are told apart from those that may be rewritten."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.builders import TODAY, Delete, File, Scene
from tidyberg.planning.safety import Hazard, explain, files_with_deletes, hazards_of


def deleted(scene: Scene) -> list[bool]:
    inventory = scene.inventory()
    found: list[bool] = files_with_deletes(inventory.data_files, inventory.delete_files).tolist()
    return found


FILES = [File(sequence=sequence) for sequence in (1, 2, 3)]


def test_a_position_delete_applies_up_to_its_own_sequence_number() -> None:
    assert deleted(Scene(FILES, [Delete("position", sequence=2)])) == [True, True, False]


def test_an_equality_delete_applies_below_its_sequence_number_only() -> None:
    assert deleted(Scene(FILES, [Delete("equality", sequence=2)])) == [True, False, False]


def test_a_referenced_file_alone_is_touched() -> None:
    for kind in ("position", "dv"):
        scene = Scene(FILES, [Delete(kind, "file", sequence=3, references="f000001.parquet")])
        assert deleted(scene) == [False, True, False]


def test_other_partitions_are_not_touched_but_by_global_deletes() -> None:
    files = [File(partition=0), File(partition=1)]
    days = (TODAY, TODAY - 1)
    assert deleted(Scene(files, [Delete("equality", sequence=5, partition=1)], days=days)) == [False, True]
    scene = Scene(files, [Delete("equality", "global", sequence=5, partition=1)], days=days)
    assert deleted(scene) == [True, True]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    partition, sequence = st.integers(0, 2), st.integers(0, 4)
    files = draw(st.lists(st.builds(File, partition=partition, sequence=sequence), min_size=1, max_size=6))
    paths = [f"f{n:06d}.parquet" for n in range(len(files) + 1)]
    deletes = st.one_of(
        st.builds(Delete, st.just("position"), st.just("partition"), partition, sequence),
        st.builds(
            Delete, st.sampled_from(["position", "dv"]), st.just("file"), partition, sequence, st.sampled_from(paths)
        ),
        st.builds(Delete, st.just("equality"), st.sampled_from(["partition", "global"]), partition, sequence),
    )
    return Scene(files, draw(st.lists(deletes, max_size=5)), days=(1, 2, 3))


@given(scenes())
def test_deletes_apply_as_the_spec_says(scene: Scene) -> None:
    def applies(delete: Delete, file: File, path: str) -> bool:
        if delete.kind == "equality":
            in_scope = delete.scope == "global" or delete.partition == file.partition
            return in_scope and file.sequence < delete.sequence
        in_scope = delete.references == path if delete.references else delete.partition == file.partition
        return in_scope and file.sequence <= delete.sequence

    assert deleted(scene) == [
        any(applies(delete, file, f"f{n:06d}.parquet") for delete in scene.deletes)
        for n, file in enumerate(scene.files)
    ]


def test_hazards_name_format_and_encryption_before_deletes() -> None:
    files = [File(), File(format="ORC"), File(encrypted=True), File(format="AVRO", encrypted=True), File()]
    hazards = hazards_of(Scene(files).inventory().data_files, np.array([True, True, True, True, False]))
    assert hazards.tolist() == [
        Hazard.HAS_DELETES,
        Hazard.FORMAT,
        Hazard.ENCRYPTED,
        Hazard.ENCRYPTED,
        Hazard.NONE,
    ]
    assert explain(hazards) == (
        "1 file with deletes to apply (not supported yet), 1 file not in Parquet, 2 files encrypted"
    )
    assert [hazard.code for hazard in Hazard][1:] == ["has-deletes", "format", "encrypted"]
