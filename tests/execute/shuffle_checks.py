"""Checks of shuffles that must hold on every engine."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField

from tests.builders.control import leftovers, make_control
from tests.builders.delete_scenarios import one_key
from tests.builders.events_table import REF, delete_files, make_table, options
from tests.builders.shuffles import Trouble, expected_results, numbered_job
from tests.builders.sorted_plans import shuffle_small_groups
from tests.builders.tasks import NUMBERS, STORAGE, make_task, number_files
from tidyberg.control.sorted_groups import SortedGroups
from tidyberg.errors import Cancelled, DamagedFile, StorageError, Unsupported
from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.report import Event, Notice
from tidyberg.model.shuffle import MAX_CHUNK_BYTES, ShuffleJob, ShuffleResult
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.task import TaskInput
from tidyberg.testing import Warehouse


def shuffled(engine: Engine, *jobs: ShuffleJob, max_parallelism: int | None = None) -> dict[int, ShuffleResult]:
    results = engine.shuffle(jobs, STORAGE, cancel=CancelToken(), max_parallelism=max_parallelism)
    return {result.group_id: result for result in results}


def check_every_chunk_arrives_once(engine: Engine) -> None:
    """With an empty partition, a skewed one, and fewer tasks at once than partitions."""
    one, other = numbered_job(), numbered_job(3, 3, 200, 8, size=1_000, skew=20)
    for most in (None, 2):
        found = shuffled(engine, one, other, max_parallelism=most)
        assert list(found[7].results) == expected_results(one)
        assert list(found[8].results) == expected_results(other)
        assert found[7].results[-1] == ([], [], {})
        assert len(found[8].results[0][0]) > 15 * len(found[8].results[1][0]) > 0
        assert [report[:20] for report in found[7].reports] == [f"map {n} sent 30 chunks"[:20] for n in range(4)]


def check_a_failed_attempt_is_not_seen(engine: Engine, directory: Path, kinds: tuple[str, ...]) -> None:
    """The second map task fails after half of its chunks, and so does a reduce task after it has read its chunks."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        sent, read = directory / f"{kind}-sent", directory / f"{kind}-read"
        job = numbered_job(trouble=Trouble(kind, str(sent)), reduce_trouble=Trouble(kind, str(read)))
        (result,) = shuffled(engine, job).values()
        assert sent.exists()
        assert read.exists()
        assert list(result.results) == expected_results(job)


def check_failures(engine: Engine) -> None:
    for trouble, error in ((Trouble("damaged"), DamagedFile), (Trouble("storage"), StorageError)):
        for job in (numbered_job(trouble=trouble), numbered_job(reduce_trouble=trouble)):
            with pytest.raises(error, match="trouble in the middle") as raised:
                shuffled(engine, job)
            assert "Traceback" not in str(raised.value)
    with pytest.raises(Unsupported, match="cannot be shuffled; the limit is 33,554,432"):
        shuffled(engine, numbered_job(1, 2, 1, size=MAX_CHUNK_BYTES + 1))
    (result,) = shuffled(engine, large := numbered_job(1, 2, 1, size=MAX_CHUNK_BYTES)).values()
    assert list(result.results) == expected_results(large)


def check_sort(engine: Engine, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is larger than memory is sorted: all rows are there, in and among the outputs."""
    shuffle_small_groups(monkeypatch)
    files = number_files(directory / "in", 6, 4_000)
    key = SortKey((SortField(1, "bucket[7]"), SortField(1, descending=True)))
    task = make_task(files, NUMBERS, directory / "out", outputs=3, checksum=True, mode="sort", sort_key=key)
    groups = SortedGroups([replace(task, parts=3)], Schema(NestedField(1, "id", LongType())), PlanOptions())
    (result,) = groups.run(engine, STORAGE, CancelToken())
    assert (result.rows_read, result.rows_written, len(result.outputs)) == (24_000, 24_000, 3)
    parts = [pq.read_table(output.path)["id"].to_pylist() for output in result.outputs]
    bucket = BucketTransform(num_buckets=7).transform(LongType())
    assert [n for part in parts for n in part] == sorted(range(24_000), key=lambda number: (bucket(number), -number))
    assert all(abs(len(part) - 8_000) < 400 for part in parts)
    check_boundaries(engine, directory, files)


def check_boundaries(engine: Engine, directory: Path, files: list[TaskInput]) -> None:
    """Outputs end at boundaries, also where a segment has one row or none."""
    key = SortKey((SortField(1, descending=True),))
    ends = (-7, 5_000, 5_001, 20_000, 90_000)
    task = make_task(files, NUMBERS, directory / "cut", outputs=5, mode="sort", sort_key=key)
    size = sum(file.size for file in files)
    task = replace(task, boundaries=tuple(to_bytes(LongType(), end) for end in ends), target_bytes=size // 5)
    groups = SortedGroups([task], Schema(NestedField(1, "id", LongType())), PlanOptions())
    (result,) = groups.run(engine, STORAGE, CancelToken())
    parts = [pq.read_table(output.path)["id"].to_pylist() for output in result.outputs]
    assert [n for part in parts for n in part] == list(range(23_999, -1, -1))
    assert not [part for part in parts for end in ends if min(part) < end <= max(part)]
    assert [5_000] in parts
    assert len(parts) == 6, "15,000 rows of one segment become files of about the target size"


def check_joined_deletes(engine: Engine, directory: Path) -> None:
    """A compaction joins its equality deletes with the rows on the engine, and leaves no file of the joins."""
    with Warehouse(directory / "lab") as warehouse, make_control(warehouse, engine) as control:
        table = make_table(warehouse)
        one_key(warehouse, table)
        before, events = warehouse.rows(table), list[Event]()
        how = replace(options(), join_delete_size=1)
        result = control.compact(REF, how, verify=VerifyMode.FULL, on_event=events.append)
        assert (result.outcome, result.job.engine) == ("committed", engine.name)
        assert [event.message for event in events if isinstance(event, Notice) and "joining" in event.message]
        assert warehouse.rows(table) == before
        assert delete_files(warehouse, table) == []
        assert not leftovers(warehouse, table)


def check_cancel(engine: Engine, directory: Path, *, soon: float = 15.0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, job in (
        ("map", numbered_job(trouble=Trouble("wait", str(directory / "map")))),
        ("reduce", numbered_job(reduce_trouble=Trouble("wait", str(directory / "reduce")))),
    ):
        cancel, begun = CancelToken(), directory / name

        def cancel_when_begun(begun: Path = begun, cancel: CancelToken = cancel) -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not begun.exists():
                time.sleep(0.05)
            cancel.cancel()

        watcher = threading.Thread(target=cancel_when_begun)
        watcher.start()
        with pytest.raises(Cancelled):
            list(engine.shuffle([job], STORAGE, cancel=cancel))
        watcher.join()
        assert begun.exists()
        assert time.time() - begun.stat().st_mtime < soon
    check_every_chunk_arrives_once(engine)
