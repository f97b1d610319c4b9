"""Merges the deletes of data files without rewriting the files: each file gets one deletion vector or delete file.

Every kind of delete becomes row positions first (`deletes/deleted_rows.py`). Data files are opened only where equality
deletes may apply, and then only the columns of the keys are read.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.deletes.bitmaps import Positions
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows
from tidyberg.execute.kernel.deletes.position_files import PATH_ID, POSITION_ID, position_delete_file
from tidyberg.execute.kernel.deletes.vector_files import puffin_file
from tidyberg.execute.kernel.memory import peak_rss_bytes
from tidyberg.execute.kernel.read.open_files import open_prefetched
from tidyberg.execute.kernel.write.digest import DigestingSink
from tidyberg.execute.kernel.write.output import abandon_sink
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskDelete, TaskResult, WrittenDelete, WrittenFile, output_name
from tidyberg.parquet.codecs import writer_option
from tidyberg.storage.file_io import Place, remove_outputs

_POSITION = np.dtype("<i8")


class MergeDeletes:
    """A way of rewriting that leaves rows where they are."""

    def rewrite(self, attempt: RewriteAttempt) -> TaskResult:
        started, started_ns = time.perf_counter(), time.time_ns()
        task = attempt.task
        merged = _MergedRows(attempt)
        writer = _DeleteWriter(attempt)
        try:
            outputs = writer.vectors(merged.rows()) if task.vectors else writer.position_files(merged.rows())
        except BaseException:
            writer.abandon()
            raise
        return TaskResult(
            job_id=task.job_id,
            group_id=task.group_id,
            attempt=attempt.number,
            outputs=outputs,
            rows_read=sum(file.records for file in task.inputs),
            rows_deleted=merged.rows_deleted,
            rows_written=0,
            bytes_read=sum(map(_stored_bytes, task.deletes)),
            bytes_written=sum(output.size for output in outputs),
            seconds=time.perf_counter() - started,
            peak_rss_bytes=peak_rss_bytes(),
            started_ns=started_ns,
            mode="deletes",
            requests=attempt.storage.requests,
        )


class _MergedRows:
    """The deleted rows of each input that has any, in the order of the inputs."""

    def __init__(self, attempt: RewriteAttempt) -> None:
        self.rows_deleted = 0
        self._attempt = attempt
        self._deleted_rows = DeletedRows(attempt.task, attempt.storage, attempt.should_stop, trusts_bounds=True)

    def rows(self) -> Iterator[tuple[str, Positions]]:
        inputs, deleted_rows = self._attempt.task.inputs, self._deleted_rows
        keyed = [file for file in inputs if deleted_rows.may_match_keys(file)]
        with closing(open_prefetched(self._attempt.storage, keyed)) as opened:
            for file in inputs:
                if self._attempt.should_stop():
                    raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
                if deleted_rows.may_match_keys(file):
                    with closing((open_file := next(opened)).source):
                        positions = deleted_rows.positions(open_file)
                else:
                    positions = deleted_rows.known_positions(file.path)
                if len(positions):
                    self.rows_deleted += len(positions)
                    yield file.path, positions


class _DeleteWriter:
    def __init__(self, attempt: RewriteAttempt) -> None:
        self._attempt = attempt
        self._places: list[Place] = []

    def vectors(self, rows: Iterator[tuple[str, Positions]]) -> tuple[WrittenFile, ...]:
        """Writes all vectors to one Puffin file. No file is written if no row is deleted."""
        found = list(rows)
        if not found:
            return ()
        content, placed = puffin_file(found)
        deletes = tuple(
            WrittenDelete(path, len(positions), positions_digest(positions), vector.offset, vector.size)
            for (path, positions), vector in zip(found, placed, strict=True)
        )
        return (self._write(content, "puffin", deletes),)

    def position_files(self, rows: Iterator[tuple[str, Positions]]) -> tuple[WrittenFile, ...]:
        """Writes one file per data file, so that readers of another data file need not open it."""
        return tuple(self._position_file(path, positions) for path, positions in rows)

    def abandon(self) -> None:
        remove_outputs(self._places, self._attempt.storage)  # recovery removes what cannot be removed now

    def _position_file(self, path: str, positions: Positions) -> WrittenFile:
        encoded = position_delete_file(path, positions, writer_option(self._attempt.task.write.compression))
        # Spec: a reader may conclude from equal bounds that all rows are for one data file, so the path is not cut.
        bound = path.encode()
        return self._write(
            encoded.content,
            "parquet",
            (WrittenDelete(path, len(positions), positions_digest(positions)),),
            column_sizes=encoded.column_sizes,
            lower_bounds={PATH_ID: bound, POSITION_ID: positions[:1].astype(_POSITION).tobytes()},
            upper_bounds={PATH_ID: bound, POSITION_ID: positions[-1:].astype(_POSITION).tobytes()},
        )

    def _write(
        self,
        content: bytes,
        ending: str,
        deletes: tuple[WrittenDelete, ...],
        *,
        column_sizes: dict[int, int] | None = None,
        lower_bounds: dict[int, bytes] | None = None,
        upper_bounds: dict[int, bytes] | None = None,
    ) -> WrittenFile:
        place, digest = self._store(content, ending)
        records = sum(delete.records for delete in deletes)
        columns = tuple(column_sizes or ())
        return WrittenFile(
            path=place.location,
            size=len(content),
            records=records,
            column_sizes=column_sizes or {},
            value_counts=dict.fromkeys(columns, records),
            null_value_counts=dict.fromkeys(columns, 0),
            nan_value_counts={},
            lower_bounds=lower_bounds or {},
            upper_bounds=upper_bounds or {},
            split_offsets=(),
            digest=digest,
            deletes=deletes,
        )

    def _store(self, content: bytes, ending: str) -> tuple[Place, str]:
        """Writes a file under the next name. Returns its place and its SHA-256."""
        attempt, task = self._attempt, self._attempt.task
        number = len(self._places)
        if number >= task.max_outputs:
            raise KernelFailure(
                FailureKind.LIMIT,
                f"Group {task.group_id} needs more than {task.max_outputs:,} delete files; the plan expected "
                f"{task.outputs:,}.",
            )
        name = output_name(task.job_id, task.group_id, attempt.number, number, ending=ending)
        place = attempt.storage.place(f"{task.output_directory.rstrip('/')}/{name}")
        self._places.append(place)
        sink = DigestingSink(attempt.storage.open_output(place))
        try:
            with attempt.storage.guard(place.location, writing=True):
                sink.write(content)
                sink.close()
        except BaseException:
            abandon_sink(sink, attempt.storage, place)
            raise
        return place, sink.hexdigest()


def positions_digest(positions: Positions) -> str:
    """Returns the SHA-256 of sorted positions."""
    return hashlib.sha256(positions.astype(_POSITION).tobytes()).hexdigest()


def _stored_bytes(delete: TaskDelete) -> int:
    return delete.size if delete.content_size is None else delete.content_size
