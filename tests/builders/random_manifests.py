"""Forged tables with random manifests: several specs, deletes of all kinds, entries of all states."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StructType

from tests.builders.inventories import BY_REGION, SCHEMA
from tidyberg.testing import ForgedEntry, ForgedManifest, forge_static_table

NOW = 10_000_000
BY_ID = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=1)
UNPARTITIONED = PartitionSpec(spec_id=2)
PROMOTED = StructType(NestedField(1000, "id", IntegerType(), required=False))  # ids were ints when it was written
VALUES: dict[int, Sequence[tuple[Any, ...]]] = {
    0: ((None,), ("null",), ("r1",), ("r2",)),
    1: ((None,), (1,), (2,)),
    2: ((),),
}
SNAPSHOTS = [
    {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": NOW - 1_000 * age,
        "summary": {"operation": what},
    }
    for number, age, what in ((2, 9_000, "append"), (3, 5_000, "replace"), (4, 900, "append"), (5, 100, "append"))
]
PATH_COLUMN = 2147483546


def random_manifest(random: Random, number: int, specs: Sequence[int], version: int) -> ForgedManifest:
    spec_id = random.choice(specs)
    entries = [
        ForgedEntry(
            f"{number}-{n}.parquet",
            status=random.choice((0, 1, 1, 2)),
            records=random.choice((0, 10, 1_000)),
            size=random.choice((50, 400, 750, 900, 1_000, 1_800, 1_801, 5_000)),
            partition=random.choice(VALUES[spec_id]),
            snapshot_id=random.choice((1, 2, 3, 4, 5)),
            sequence_number=random.randint(1, 5),
            file_sequence_number=random.randint(1, 5),
            values={"first_row_id": random.choice((None, 77))} if version == 3 else {},
        )
        for n in range(random.randint(0, 12))
    ]
    return ForgedManifest(
        entries,
        sequence_number=random.randint(1, 5),
        spec_id=spec_id,
        first_row_id=random.choice((None, 1_000)) if version == 3 else None,
        partition_type=PROMOTED if spec_id == 1 and random.random() < 0.5 else None,
    )


def random_deletes(random: Random, number: int, specs: Sequence[int], version: int) -> ForgedManifest:
    spec_id = random.choice(specs)
    entries = []
    for n in range(random.randint(1, 4)):
        named = f"{random.randrange(4)}-{random.randrange(12)}.parquet"
        kind = random.choice(("equality", "partition", "bounds", "referenced"))
        content = 1
        values: dict[str, Any] = {}
        if kind == "equality":
            content, values = 2, {"equality_ids": [1]}
        elif kind == "bounds":
            values = {bound: {PATH_COLUMN: named.encode()} for bound in ("lower_bounds", "upper_bounds")}
        elif kind == "referenced" and version == 3:
            values = {"referenced_data_file": named, "file_format": "PUFFIN", "content_offset": 4}
        entries.append(
            ForgedEntry(
                f"d{number}-{n}.parquet",
                content=content,
                partition=random.choice(VALUES[spec_id]),
                sequence_number=random.choice((None, 2, 4)),
                file_sequence_number=random.choice((None, 2, 4)),
                values=values,
            )
        )
    return ForgedManifest(
        entries,
        sequence_number=random.randint(1, 5),
        spec_id=spec_id,
        content=1,
        partition_type=PROMOTED if spec_id == 1 and random.random() < 0.5 else None,
    )


def random_table(random: Random, directory: Path) -> StaticTable:
    version = random.choice((2, 2, 3))
    specs = random.choice(((0,), (1,), (0, 1), (0, 1, 2)))
    manifests = [random_manifest(random, number, specs, version) for number in range(random.randint(1, 6))]
    manifests += [random_deletes(random, number, specs, version) for number in range(random.choice((0, 0, 1, 2)))]
    random.shuffle(manifests)
    known = [spec for spec in (BY_REGION, BY_ID, UNPARTITIONED) if spec.spec_id in specs]
    return forge_static_table(
        directory, manifests, schema=SCHEMA, specs=known, format_version=version, snapshots=SNAPSHOTS
    )
