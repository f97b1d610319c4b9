"""A file group and a rewrite result that agree with each other. Tests make them disagree."""

import struct
from dataclasses import replace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType

from tidyberg.model.plan import Estimate, FileGroup, InputFile
from tidyberg.model.task import ColumnFacts, TaskResult, WrittenFile

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "ratio", DoubleType(), required=False),
    NestedField(4, "tags", ListType(5, StringType(), element_required=False), required=False),
)


def long(value: int) -> bytes:
    return struct.pack("<q", value)


def double(value: float) -> bytes:
    return struct.pack("<d", value)


FACTS = {
    1: ColumnFacts(values=100, nulls=0, lower=long(1), upper=long(100)),
    2: ColumnFacts(values=100, nulls=7, lower=b"anna", upper=b"zoe"),
    3: ColumnFacts(values=100, nulls=0, lower=double(-0.5), upper=double(2.5)),
    5: ColumnFacts(values=240, nulls=20, lower=b"a", upper=b"t"),
}


def group() -> FileGroup:
    files = tuple(InputFile(f"file:/in/{number}.parquet", 1000, 25, 1, "file:/m.avro") for number in range(4))
    estimate = Estimate(4, 2, 4000, 3000, 8, 2, 1.0, 0.0, 0.0, 0.0, 2, 1000, None)
    return FileGroup(
        3,
        0,
        "day=2026-11-13",
        files,
        outputs=2,
        mode="encode",
        score=1.0,
        estimate=estimate,
    )


def written(number: int, records: int, **changes: Any) -> WrittenFile:
    """Returns one of two output files, with ids 1 to 50 or 51 to 100."""
    first = number == 0
    file = WrittenFile(
        path=f"file:/out/{number}.parquet",
        size=1500,
        records=records,
        column_sizes={1: 400},
        value_counts={1: records, 2: records, 3: records, 5: 120},
        null_value_counts={1: 0, 2: 7 if first else 0, 3: 0, 5: 10},
        nan_value_counts={3: 1},
        lower_bounds={
            1: long(1 if first else 51),
            2: b"anna" if first else b"mia",
            3: double(-0.5 if first else 0),
        },
        upper_bounds={
            1: long(50 if first else 100),
            2: b"lea" if first else b"zoe",
            3: double(1 if first else 2.5),
        },
        split_offsets=(4,),
    )
    return replace(file, **changes)


def result(**changes: Any) -> TaskResult:
    value = TaskResult(
        job_id="j",
        group_id=3,
        attempt=0,
        outputs=(written(0, 50), written(1, 50)),
        rows_read=100,
        rows_deleted=0,
        rows_written=100,
        bytes_read=4000,
        bytes_written=3000,
        seconds=1.0,
        peak_rss_bytes=1,
        input_facts=dict(FACTS),
        output_facts=dict(FACTS),
    )
    return replace(value, **changes)


def facts(field_id: int, **changes: Any) -> dict[int, ColumnFacts]:
    """Returns the correct facts with one column changed."""
    return {**FACTS, field_id: replace(FACTS[field_id], **changes)}
