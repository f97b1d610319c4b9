"""Files of other formats, encrypted, or with deletes of other formats are told apart from those to be rewritten."""

import numpy as np

from tests.planning.builders import Delete, File, Scene, plan_for
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import Rewrite, Skip
from tidyberg.planning.safety import Hazard, explain, hazards_of


def test_hazards_name_format_and_encryption_before_deletes() -> None:
    files = [File(), File(format="ORC"), File(encrypted=True), File(format="AVRO", encrypted=True), File()]
    hazards = hazards_of(Scene(files).inventory().data_files, np.array([True, True, True, True, False]))
    assert hazards.tolist() == [
        Hazard.DELETE_FORMAT,
        Hazard.FORMAT,
        Hazard.ENCRYPTED,
        Hazard.ENCRYPTED,
        Hazard.NONE,
    ]
    assert explain(hazards) == "1 file with deletes not in Parquet, 1 file not in Parquet, 2 files encrypted"
    assert [hazard.code for hazard in Hazard][1:] == ["delete-format", "format", "encrypted"]


def test_files_are_left_out_for_the_format_of_deletes_that_apply_and_no_others() -> None:
    files = [File(sequence=sequence) for sequence in (1, 2, 3) for _ in range(10)]
    deletes = [Delete("equality", sequence=2, format="AVRO"), Delete("position", sequence=3), Delete(sequence=0)]
    plan = plan_for(Scene(files, deletes))
    verdict = plan.partitions[0].verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.files == 20
    assert "; leaves out 10 files with deletes not in Parquet" in verdict.reason
    assert {file.sequence_number for group in plan.groups for file in group.files} == {2, 3}
    assert [delete.path for delete in plan.deletes] == ["d00001.parquet"]
    nothing = plan_for(Scene(files, [Delete(sequence=3, format="ORC")]), PlanOptions(force=True))
    assert nothing.partitions[0].verdict == Skip("delete-format", "30 files with deletes not in Parquet")


def test_a_vector_must_be_puffin() -> None:
    for kind, form, left_out in (("dv", "PUFFIN", 0), ("dv", "PARQUET", 1), ("position", "PUFFIN", 1)):
        delete = Delete(kind, "file", references="f000003.parquet", format=form)
        plan = plan_for(Scene([File()] * 10, [delete]))
        assert plan.estimate.input_files == 10 - left_out
