"""Checks that must hold on every kind of Spark; the local, cluster and Connect tests share them."""

import dataclasses
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.builders.delete_files import equality_delete
from tests.builders.inventories import BY_REGION, SCHEMA, inventory_of
from tests.builders.tasks import NUMBERS, STORAGE, field, make_task, number_files, read_rows
from tidyberg.control.engine_reads import engine_reads
from tidyberg.control.remote_manifests import counting_rule, reading_on
from tidyberg.errors import Cancelled, DamagedFile, StorageError
from tidyberg.execute.engine import CancelToken, gathered
from tidyberg.execute.kernel.write.sizing import max_outputs_of_attempt
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.execute.tasks.delete_contents import with_delete_contents
from tidyberg.model.inventory import Inventory
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.task import Task, TaskResult, output_name
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.manifest_list import read_manifest_list
from tidyberg.observe.reachable import live_entries
from tidyberg.observe.reading import RemoteReader
from tidyberg.observe.statistics import partition_statistics
from tidyberg.planning.decide import make_plan
from tidyberg.storage.listing import files_below
from tidyberg.testing import ForgedEntry, ForgedManifest, forge_static_table


def group_tasks(directory: Path, groups: int) -> list[Task]:
    files = number_files(directory / "in", groups * 2, 500)
    return [
        dataclasses.replace(make_task(files[2 * number : 2 * number + 2], NUMBERS, directory / "out"), group_id=number)
        for number in range(groups)
    ]


def endless_tasks(directory: Path, groups: int, times: int = 3_000) -> list[Task]:
    """Groups that take minutes: the same file again and again, many outputs."""
    (file,) = number_files(directory / "in", 1, 50_000)
    task = make_task([file] * times, NUMBERS, directory / "out", outputs=200)
    return [dataclasses.replace(task, group_id=number) for number in range(groups)]


def check_results_and_progress(engine: SparkEngine, directory: Path) -> None:
    tasks = group_tasks(directory, 5)
    results = gathered(engine.run(tasks, STORAGE, cancel=CancelToken()))
    assert [result.group_id for result in results] == [0, 1, 2, 3, 4]
    for task, result in zip(tasks, results, strict=True):
        assert isinstance(result, TaskResult)
        assert 0 <= result.attempt < engine.attempts
        assert read_rows([o.path for o in result.outputs]) == read_rows([file.path for file in task.inputs])


def check_deletes(engine: SparkEngine, directory: Path) -> None:
    """Deletes that are sent with the tasks, and deletes that workers read, delete the same rows."""
    by_id = pa.schema([field("id", pa.int64(), 1)])
    delete = equality_delete(directory / "d.parquet", by_id, {"id": list(range(0, 2_000, 3))}, (1,), 2)
    schemas: dict[tuple[int, ...], bytes] = {(1,): bytes(by_id.serialize())}
    tasks = [dataclasses.replace(t, deletes=(delete,), equality_schemas=schemas) for t in group_tasks(directory, 2)]
    for limit in (1024 * 1024, 0):
        filled = with_delete_contents(tasks, STORAGE, per_job=limit)
        found = []
        for result in gathered(engine.run(filled, STORAGE, cancel=CancelToken())):
            assert isinstance(result, TaskResult)
            found += [row["id"] for row in read_rows([output.path for output in result.outputs])]
        assert found == [number for number in range(2_000) if number % 3]


def check_damaged_file(engine: SparkEngine, directory: Path) -> None:
    tasks = group_tasks(directory, 3)
    path = Path(tasks[1].inputs[1].path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedFile) as raised:
        list(engine.run(tasks, STORAGE, cancel=CancelToken()))
    assert str(path) in raised.value.message
    assert "Traceback" not in str(raised.value)
    assert len(str(raised.value)) < 1_000


def check_storage_error(engine: SparkEngine, directory: Path) -> None:
    (task,) = group_tasks(directory, 1)
    (directory / "out").write_text("a file where a directory should be")
    with pytest.raises(StorageError) as raised:
        list(engine.run([task], STORAGE, cancel=CancelToken()))
    assert str(directory / "out") in raised.value.message
    assert "Traceback" not in str(raised.value)


def check_cancel(engine: SparkEngine, directory: Path) -> None:
    """Cancelled soon; what late workers write has a computable name and comes before `settle_seconds` are over."""
    tasks = endless_tasks(directory, 2)
    cancel = CancelToken()
    out = directory / "out"

    def cancel_once_written() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not list(out.glob("*.parquet")):
            time.sleep(0.05)
        cancel.cancel()

    watcher = threading.Thread(target=cancel_once_written)
    watcher.start()
    with pytest.raises(Cancelled):
        list(engine.run(tasks, STORAGE, cancel=cancel))
    returned = time.monotonic()
    watcher.join()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidyberg-spark")]
    time.sleep(engine.settle_seconds)
    settled = {path.name: path.stat().st_size for path in out.iterdir()}
    possible = {
        output_name("job", group, attempt, number)
        for group in range(2)
        for attempt in range(engine.attempts)
        for number in range(max_outputs_of_attempt(200))
    }
    assert settled, "the cancel came before anything was written: this run proves nothing"
    assert set(settled) <= possible
    time.sleep(2.5)
    assert {path.name: path.stat().st_size for path in out.iterdir()} == settled
    assert time.monotonic() - returned < 30
    # The session is still good for the next job.
    check_results_and_progress(engine, directory / "after")


def check_manifests(engine: SparkEngine, directory: Path) -> None:
    """A plan from manifests that Spark read or counted equals the plan from manifests read here [I11]."""
    manifests = [
        ForgedManifest(
            [
                ForgedEntry(
                    f"{number}-{n}.parquet", partition=(f"r{n % 3}",), size=1000 + n, values={"split_offsets": [4]}
                )
                for n in range(20)
            ],
            sequence_number=1,
        )
        for number in range(8)
    ]
    deletes = [ForgedEntry("d.parquet", partition=("r1",), content=1)]
    table = forge_static_table(
        directory, [*manifests, ForgedManifest(deletes, content=1, sequence_number=2)], schema=SCHEMA, specs=[BY_REGION]
    )
    here = inventory_of(table)
    there = take_inventory(table, here.pinned, remote=RemoteReader(0, reading_on(lambda: engine, table.io)))
    assert there.data_files == here.data_files
    assert there.delete_files == here.delete_files
    assert there.partitions == here.partitions
    everything = PlanOptions(strategy=Strategy.FULL)
    assert _plan_hash(there, everything) == _plan_hash(here, everything)
    tidy = PlanOptions(strategy=Strategy.FULL, target_file_size=1_010)  # only deletes give something to do
    counted_files = counting_rule(here.pinned, tidy, 0)
    some = take_inventory(
        table, here.pinned, remote=RemoteReader(0, reading_on(lambda: engine, table.io), counted_files)
    )
    assert 0 < some.data_files.num_rows < here.data_files.num_rows / 2
    assert _plan_hash(some, tidy) == _plan_hash(here, tidy)
    (directory / "manifest-00003.avro").write_bytes(b"Obj\x01 and nothing else" * 1000)
    with pytest.raises(DamagedFile, match=r"manifest-00003.avro is damaged"):
        take_inventory(table, here.pinned, remote=RemoteReader(0, reading_on(lambda: engine, table.io)))


def check_engine_reads(engine: SparkEngine, directory: Path) -> None:
    """Tasks return the entries and the files that this process finds [I6]."""
    manifests = [ForgedManifest([ForgedEntry(f"{m}-{n}", status=n % 3) for n in range(20)]) for m in range(8)]
    table = forge_static_table(directory / "table", manifests, schema=SCHEMA)
    for number in range(30):
        (directory / f"data/{number % 3}/{number}").mkdir(parents=True)
        (directory / f"data/{number % 3}/{number}/file").write_bytes(b"x" * number)
    infos = read_manifest_list(table.io, table.metadata.snapshots[0].manifest_list)
    reads = engine_reads(lambda: engine, 0, 3)
    here = pa.concat_tables(live_entries(table.io, infos))
    there = pa.concat_tables(live_entries(table.io, infos, remote=reads.manifests(table.io)))
    assert there.sort_by("path") == here.sort_by("path")
    assert here.num_rows == 8 * 14
    found, expected = (
        pa.concat_tables(files_below(table.io, str(directory / "data"), remote=remote)).sort_by("path")
        for remote in (reads.files, None)
    )
    assert found == expected
    assert expected.num_rows == 30


def _plan_hash(inventory: Inventory, options: PlanOptions) -> str:
    statistics = partition_statistics(inventory, small_file_threshold=2**25, hot_window_seconds=60, now_ms=0)
    plan = make_plan(inventory, statistics, options, now_ms=0)
    assert plan.groups
    return plan.hash
