"""An output on several cores has the same bytes as on one core, bounded memory, and a clean end after a failure."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.builders.copy_tasks import SCHEMA, rows, write_files
from tests.builders.delete_files import position_delete
from tests.builders.random_tables import files
from tests.builders.splice_tasks import small_files_count
from tests.builders.tasks import NUMBERS, STORAGE, field, make_task, number_files, write_file
from tidyberg.execute.kernel.read.source import Source
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.kernel.write import encoders
from tidyberg.execute.kernel.write import rolling as write
from tidyberg.execute.kernel.write.encoders import bundles
from tidyberg.execute.kernel.write.paged_output import in_memory
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task, TaskPartitionField, TaskResult
from tidyberg.parquet.errors import CannotCopy

MB = 1024 * 1024
InMemory = Callable[[pa.Table, Any], Source]


@pytest.fixture(autouse=True, scope="module")
def tables_of_any_size_count() -> Iterator[None]:
    """Without this, several threads encode only row groups of megabytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "MIN_PARALLEL_BYTES", 0)
        patch.setattr(write, "MIN_PARALLEL_BYTES", 0)
        yield


def run(task: Task, **more: Any) -> TaskResult:
    result = run_task(task, 0, STORAGE, **more)
    assert isinstance(result, TaskResult)
    # How long it took and what the process had are not the task's.
    return replace(result, seconds=0.0, peak_rss_bytes=0, started_ns=0)


def outputs_of(task: Task) -> set[str]:
    return {str(file) for file in Path(task.output_directory).glob("*")}


def no_thread_is_left() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("tidyberg-encode")]


def assert_the_same(task: Task, cores: int = 3) -> TaskResult:
    """Compares the digests of the files and everything that the results say about them."""
    alone = run(task)
    assert outputs_of(task) == {output.path for output in alone.outputs}
    shutil.rmtree(task.output_directory, ignore_errors=True)
    together = run(replace(task, cores=cores))
    assert together == alone
    assert outputs_of(task) == {output.path for output in alone.outputs}
    assert no_thread_is_left()
    return together


SETTINGS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["zstd", "snappy", "gzip", "uncompressed"]),
        "dictionary": st.booleans(),
        "row_group_rows": st.sampled_from([7, 40, 1000]),
        "page_rows": st.sampled_from([3, 50]),
        "bloom_filter_columns": st.sampled_from([(), ((1, 0.01),)]),
    }
)


@settings(max_examples=50, deadline=None)
@given(
    files(),
    SETTINGS,
    st.integers(2, 6),
    st.integers(1, 4),
    st.sampled_from([1, 9, 1000]),
    st.sampled_from([1, 2000, 256 * MB]),
)
def test_random_files_become_the_same_bytes_on_any_number_of_cores(
    tables: list[pa.Table], how: dict[str, Any], cores: int, outputs: int, batch_rows: int, memory: int
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="tidyberg-cores-"))
    try:
        inputs = write_files(directory / "in", tables)
        task = make_task(
            inputs, tables[0].schema, directory / "out", outputs=outputs, batch_rows=batch_rows, memory_bytes=memory
        )
        result = assert_the_same(replace(task, write=replace(task.write, **how)), cores)
        event(f"outputs: {len(result.outputs)}")
    finally:
        shutil.rmtree(directory)


def test_rows_under_deletes_with_lineage_and_bloom_filters_become_the_same_bytes(tmp_path: Path) -> None:
    inputs = write_files(tmp_path / "in", [rows(0, 400), rows(400, 300), rows(700, 500)])
    inputs = [replace(file, sequence_number=1, first_row_id=1000 * n) for n, file in enumerate(inputs)]
    gone = [(file.path, position) for file in inputs for position in range(0, 200, 7)]
    task = make_task(
        inputs,
        SCHEMA,
        tmp_path / "out",
        outputs=3,
        deletes=(position_delete(tmp_path / "deletes.parquet", gone, 2),),
        lineage=True,
        checksum=True,
        batch_rows=64,
    )
    filters = ((1, 0.01), (3, 0.1), (11, 0.01))
    result = assert_the_same(replace(task, write=replace(task.write, row_group_rows=100, bloom_filter_columns=filters)))
    assert (result.rows_deleted, len(result.outputs)) == (len(gone), 2)
    footer = pq.read_metadata(result.outputs[0].path)
    assert footer.num_row_groups > 1
    assert footer.row_group(0).column(0).bloom_filter_offset is not None


@pytest.mark.parametrize("memory", [20_000, 256 * MB], ids=["spilled", "in memory"])
def test_rows_that_move_to_other_partitions_become_the_same_bytes(tmp_path: Path, memory: int) -> None:
    task = make_task(
        number_files(tmp_path / "in", 4, 1000),
        NUMBERS,
        tmp_path / "out",
        partitioning=(TaskPartitionField(1, "bucket[5]"),),
        memory_bytes=memory,
        batch_rows=128,
    )
    assert len({output.partition for output in assert_the_same(task).outputs}) == 5


def test_columns_beside_moved_pages_become_the_same_bytes(tmp_path: Path) -> None:
    how: dict[str, Any] = {"use_dictionary": ["name", "day"], "write_page_index": True}
    inputs = write_files(tmp_path / "in", [rows(200 * n, 200) for n in range(6)], compression="zstd", **how)
    task = make_task(inputs, SCHEMA, tmp_path / "out", splices=True)
    with small_files_count():
        result = assert_the_same(replace(task, write=replace(task.write, row_group_rows=400)))
    assert 0 < result.bytes_spliced < result.bytes_read


def test_columns_are_encoded_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the first two threads continues before the other has started."""
    both, begun = threading.Barrier(2, timeout=30), 0

    def meet(table: pa.Table, options: Any) -> Source:
        nonlocal begun
        begun += 1
        if begun <= 2:
            both.wait()
        return in_memory(table, options)

    monkeypatch.setattr(encoders, "in_memory", meet)
    run(make_task(number_files(tmp_path / "in", 2, 500), NUMBERS, tmp_path / "out", cores=2))
    assert begun == 2


def test_the_next_rows_are_read_while_a_row_group_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row group is finished only when rows of the second were read."""
    inputs = write_files(tmp_path / "in", [rows(50 * n, 50) for n in range(6)])
    is_encoding, went_on = threading.Event(), threading.Event()

    def should_stop() -> bool:
        if is_encoding.is_set():
            went_on.set()
        return False

    def wait(table: pa.Table, options: Any) -> Source:
        is_encoding.set()
        assert went_on.wait(30)
        return in_memory(table, options)

    monkeypatch.setattr(encoders, "in_memory", wait)
    task = make_task(inputs, SCHEMA, tmp_path / "out", cores=2)
    result = run(replace(task, write=replace(task.write, row_group_rows=150)), should_stop=should_stop)
    assert pq.read_metadata(result.outputs[0].path).num_row_groups == 2


def test_a_task_on_several_cores_holds_one_row_group_more(tmp_path: Path) -> None:
    schema = pa.schema([field(f"c{n}", pa.int64(), n + 1) for n in range(8)])
    random = np.random.default_rng(1)
    tables = [pa.table([random.integers(0, 2**62, 20_000) for _ in schema], schema=schema) for _ in range(60)]
    inputs = [write_file(tmp_path / f"{n}.parquet", table) for n, table in enumerate(tables)]  # 73 MB
    task = make_task(inputs, schema, tmp_path / "out", memory_bytes=4 * MB, batch_rows=5_000)

    def most_allocated(cores: int) -> int:
        before, most = pa.total_allocated_bytes(), 0

        def look() -> bool:
            nonlocal most
            most = max(most, pa.total_allocated_bytes() - before)
            return False

        result = run(replace(task, cores=cores), should_stop=look)
        assert pq.read_metadata(result.outputs[0].path).num_row_groups >= 15
        return most

    # As Arrow has it, as it is encoded, and what encoding needs.
    more = most_allocated(4) - most_allocated(1)
    assert more < 3 * task.memory_bytes


def failing(after: int, error: BaseException) -> InMemory:
    calls = 0

    def fail(table: pa.Table, options: Any) -> Source:
        nonlocal calls
        calls += 1
        if calls > after:
            raise error
        return in_memory(table, options)

    return fail


@pytest.mark.parametrize("after", [0, 1, 3], ids=["at once", "with the other columns done", "in a later row group"])
def test_a_failure_in_a_thread_fails_the_task_and_leaves_neither_output_nor_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(encoders, "in_memory", failing(after, pa.ArrowInvalid("cannot be encoded")))
    task = make_task(number_files(tmp_path / "in", 4, 500), NUMBERS, tmp_path / "out", cores=2)
    with pytest.raises(KernelFailure) as caught:
        run(replace(task, write=replace(task.write, row_group_rows=500)))
    assert caught.value.kind is FailureKind.STORAGE
    assert "cannot be encoded" in caught.value.message
    assert str(tmp_path / "out") in caught.value.message
    assert outputs_of(task) == set()
    assert no_thread_is_left()


def test_a_task_that_is_stopped_while_columns_are_encoded_leaves_neither_output_nor_thread(tmp_path: Path) -> None:
    inputs = write_files(tmp_path / "in", [rows(50 * n, 50) for n in range(6)])
    task = make_task(inputs, SCHEMA, tmp_path / "out", cores=3)
    task = replace(task, write=replace(task.write, row_group_rows=100))
    with pytest.raises(KernelFailure) as caught:
        run(task, should_stop=lambda: bool(outputs_of(task)))
    assert caught.value.kind is FailureKind.STOPPED
    assert outputs_of(task) == set()
    assert no_thread_is_left()


@pytest.mark.parametrize("after", [0, 3])
def test_columns_that_cannot_be_assembled_are_encoded_on_one_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The reason may be a footer by a newer Arrow, with fields that this version does not know."""
    task = make_task(number_files(tmp_path / "in", 4, 500), NUMBERS, tmp_path / "out")
    task = replace(task, write=replace(task.write, row_group_rows=500))
    alone = run(task)
    shutil.rmtree(task.output_directory)
    monkeypatch.setattr(encoders, "in_memory", failing(after, CannotCopy("it has fields that are not known")))
    assert run(replace(task, cores=2)) == alone
    assert outputs_of(task) == {output.path for output in alone.outputs}
    assert no_thread_is_left()


@given(st.lists(st.integers(0, 1000), max_size=60), st.integers(1, 20))
def test_bundles_hold_every_column_once_and_have_similar_sizes(sizes: list[int], most: int) -> None:
    made = bundles(sizes, most)
    assert sorted(position for bundle in made for position in bundle) == list(range(len(sizes)))
    assert len(made) == min(most, len(sizes))
    weights = [sum(sizes[position] for position in bundle) for bundle in made]
    assert weights == sorted(weights, reverse=True)
    if weights:
        assert weights[0] <= sum(sizes) / len(made) + max(sizes)
