"""Tables and files that must not be rewritten are refused with a reason."""

from dataclasses import replace

import numpy as np
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StructType,
    UnknownType,
)

from tests.builders.scenes import Delete, File, Scene, plan_for
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import Rewrite, Skip
from tidyberg.planning.safety import Hazard, explain, hazards_of, unsupported_table


def test_hazards_name_format_and_encryption_before_deletes() -> None:
    files = [File(), File(format="ORC"), File(encrypted=True), File(format="AVRO", encrypted=True), File(), File()]
    unreadable = np.array([True, True, True, True, False, False])
    disputed = np.array([True, True, False, False, True, False])
    unknown = np.array([True, True, False, True, False, True])
    hazards = hazards_of(Scene(files).inventory().data_files, unreadable, disputed, unknown)
    assert hazards.tolist() == [
        Hazard.DELETE_FORMAT,
        Hazard.FORMAT,
        Hazard.ENCRYPTED,
        Hazard.ENCRYPTED,
        Hazard.DELETE_KEYS,
        Hazard.DELETE_COLUMNS,
    ]
    assert explain(hazards) == (
        "1 file with deletes not in Parquet,"
        " 1 file with equality deletes by columns of optional structs, on which readers differ,"
        " 1 file not in Parquet, 2 files encrypted,"
        " 1 file with equality deletes by columns that no schema of the table has"
    )
    assert [hazard.code for hazard in Hazard][1:] == [
        "delete-format",
        "delete-keys",
        "format",
        "encrypted",
        "delete-columns",
    ]


def test_only_deletes_that_apply_make_a_file_unreadable() -> None:
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


def test_a_deletion_vector_must_be_in_a_puffin_file() -> None:
    for kind, form, left_out in (("dv", "PUFFIN", 0), ("dv", "PARQUET", 1), ("position", "PUFFIN", 1)):
        delete = Delete(kind, "file", references="f000003.parquet", format=form)
        plan = plan_for(Scene([File()] * 10, [delete]))
        assert plan.estimate.input_files == 10 - left_out


def with_column(kind: IcebergType, name: str = "place") -> Schema:
    return Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, name, kind, required=False))


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (GeometryType(), "column place is of type geometry"),
        (GeographyType(), "column place is of type geography"),
        (ListType(3, GeometryType(), element_required=False), "column element is of type geometry"),
        (StructType(NestedField(3, "at", GeographyType(), required=False)), "column at is of type geography"),
    ],
)
def test_a_table_with_an_unsupported_column_type_is_refused_with_the_name_of_the_column(
    kind: IcebergType, named: str
) -> None:
    pinned = replace(Scene([File()], format_version=3).inventory().pinned, schema=with_column(kind))
    assert unsupported_table(pinned) == Skip("column-type", f"{named}, which is not supported")


def test_a_table_with_an_encryption_key_is_refused() -> None:
    plan = plan_for(Scene([File()] * 20, format_version=3, properties={"encryption.key-id": "k"}))
    assert plan.is_empty
    assert plan.partitions[0].verdict == Skip(
        "encrypted", "encrypted tables are not supported (encryption.key-id is set)"
    )


def test_row_lineage_names_are_reserved_in_v3_only() -> None:
    pinned = replace(Scene([File()]).inventory().pinned, schema=with_column(LongType(), "_row_id"))
    assert unsupported_table(pinned) is None
    refused = unsupported_table(replace(pinned, format_version=3))
    assert refused == Skip("column-name", "column _row_id has a name that format v3 keeps for row lineage")


def test_other_v3_tables_are_planned() -> None:
    pinned = Scene([File()], format_version=3).inventory().pinned
    assert unsupported_table(pinned) is None
    assert unsupported_table(replace(pinned, schema=with_column(UnknownType()))) is None
    assert not plan_for(Scene([File()] * 20, format_version=3)).is_empty
