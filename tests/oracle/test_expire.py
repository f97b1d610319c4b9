"""Java expires the snapshots of a copy of the table: the same snapshots and refs go, and the same files."""

import random
import shutil
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders.aged_tables import DAY_MS, NAME, content_on_disk, random_history, rewind
from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.faults.lab import EVERYTHING
from tests.oracle.client import JavaCatalog, OracleError
from tests.seed import SEED
from tidyberg.errors import BadInput
from tidyberg.model.expiry import ExpireOptions
from tidyberg.record.clock import wall_clock_ms
from tidyberg.testing import Warehouse, local_path

ROUNDS = 30 if EVERYTHING else 1


def state(table: Table) -> dict[str, object]:
    metadata = table.refresh().metadata
    return {
        "snapshots": sorted((one.snapshot_id, one.parent_snapshot_id) for one in metadata.snapshots),
        "refs": {name: ref.snapshot_id for name, ref in metadata.refs.items()},
        "statistics": sorted(one.snapshot_id for one in metadata.statistics),
        "partition statistics": sorted(one.snapshot_id for one in metadata.partition_statistics),
        "schemas": sorted(one.schema_id for one in metadata.schemas),
        "specs": sorted(one.spec_id for one in metadata.partition_specs),
    }


def random_options(rng: random.Random, table: Table) -> ExpireOptions:
    numbers = [one.snapshot_id for one in table.metadata.snapshots]
    return ExpireOptions(
        older_than_ms=rng.choice([None, rng.randint(0, 30) * DAY_MS]),
        retain_last=rng.choice([None, rng.randint(1, 4)]),
        snapshot_ids=tuple(rng.sample(numbers, 1)) if rng.random() < 0.3 else (),
        clean_metadata=rng.random() < 0.5,
    )


def java_expire(java: JavaCatalog, options: ExpireOptions, now_ms: int) -> None:
    arguments = [f"table => '{NAME}'"]
    if options.older_than_ms is not None:
        arguments.append(f"older_than => timestamp_millis({now_ms - options.older_than_ms})")
    if options.retain_last is not None:
        arguments.append(f"retain_last => {options.retain_last}")
    if options.snapshot_ids:
        arguments.append(f"snapshot_ids => array({', '.join(map(str, options.snapshot_ids))})")
    if options.clean_metadata:
        arguments.append("clean_expired_metadata => true")
    java.sql(f"CALL {java.name}.system.expire_snapshots({', '.join(arguments)})")


@pytest.mark.parametrize("round_number", range(ROUNDS))
@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_expires_the_same_snapshots_and_deletes_the_same_files(
    warehouse: Warehouse, java: JavaCatalog, tmp_path: Path, version: int, round_number: int
) -> None:
    rng = random.Random(SEED * 1000 + version * 100 + round_number)
    table = random_history(warehouse, rng, version)
    options, now_ms, location = random_options(rng, table), wall_clock_ms(), table.metadata_location
    home, kept = Path(local_path(table.location())), tmp_path / "kept"
    shutil.copytree(home, kept)
    before, rows = content_on_disk(warehouse, table), java.sql(f"SELECT count(*) FROM {NAME}")
    print(f"seed {SEED}, version {version}, round {round_number}: {options}")  # noqa: T201

    with make_control(warehouse, now_ms=lambda: now_ms) as control:
        try:
            control.expire(REF, options)
        except BadInput:  # a ref points to the snapshot that was named
            with pytest.raises(OracleError, match="Still referenced by refs"):
                java_expire(java, options, now_ms)
            return
    ours, our_files = state(table), content_on_disk(warehouse, table)
    assert java.sql(f"SELECT count(*) FROM {NAME}") == rows
    for snapshot in table.metadata.snapshots:
        java.sql(f"SELECT count(id), max(note) FROM {NAME} VERSION AS OF {snapshot.snapshot_id}")

    shutil.rmtree(home)
    shutil.copytree(kept, home)
    rewind(warehouse, table, location)
    assert content_on_disk(warehouse, table) == before
    java_expire(java, options, now_ms)
    assert ours == state(table)
    assert before - our_files == before - content_on_disk(warehouse, table)
