"""Java looks for orphans in the same tree: it finds the same files."""

import random

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from tests.builders.aged_tables import NAME, random_history
from tests.builders.control import make_control
from tests.builders.events_table import REF, SCHEMA, append
from tests.builders.stray_files import backdate_all, put
from tests.faults.lab import EVERYTHING
from tests.oracle.client import JavaCatalog
from tests.seed import SEED
from tidyberg.model.orphans import DAY_MS, OrphanOptions
from tidyberg.record.clock import wall_clock_ms
from tidyberg.testing import Warehouse

ROUNDS = 20 if EVERYTHING else 1
DIRECTORIES = ("", "data/", "metadata/", "data/region=eu/", "data/_region=eu/", "data/_hidden/", ".git/", "a b/ü=%2F/")
NAMES = ("lost-{}.parquet", "_lost-{}", ".lost-{}.crc", "snap-{}.avro", "lost-{}-m0.avro", "{}.stats", "{} +%20.orc")


def java_orphans(java: JavaCatalog, now_ms: int) -> set[str]:
    found = java.sql(
        f"CALL {java.name}.system.remove_orphan_files(table => '{NAME}', dry_run => true, "
        f"older_than => timestamp_millis({now_ms - 3 * DAY_MS}))"
    )
    return {"/" + str(row[0]).removeprefix("file:").lstrip("/") for row in found}


@pytest.mark.parametrize("round_number", range(ROUNDS))
@pytest.mark.parametrize("version", [1, 2, 3] if EVERYTHING else [[2, 3][SEED % 2]])
def test_java_finds_the_same_orphans(warehouse: Warehouse, java: JavaCatalog, version: int, round_number: int) -> None:
    rng = random.Random(SEED * 1000 + version * 100 + round_number)
    if rng.random() < 0.5:
        table = random_history(warehouse, rng, version, steps=6)
    else:
        spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "_region"))
        table = append(warehouse, warehouse.create_table(NAME, SCHEMA, spec, format_version=version), [0, 1], "eu")
    backdate_all(table)
    for number in range(40):
        name = rng.choice(DIRECTORIES) + rng.choice(NAMES).format(number)
        put(table, name, days=rng.choice([1, 2.9, 3.1, 30]))
    now_ms, before = wall_clock_ms(), warehouse.files_on_disk(table)
    expected = java_orphans(java, now_ms)
    with make_control(warehouse, now_ms=lambda: now_ms) as control:
        control.remove_orphans(REF, OrphanOptions(now=True))
    print(f"seed {SEED}, version {version}, round {round_number}: {len(expected)} orphans")  # noqa: T201
    assert expected
    assert before - warehouse.files_on_disk(table) == expected
    java.sql(f"SELECT count(*) FROM {NAME}")
