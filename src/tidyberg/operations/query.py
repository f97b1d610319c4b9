"""QUERY: feeds the rows of a table to a process that runs the SQL, and enforces the limits of time and size."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from tidyberg.control.control import Control
from tidyberg.errors import BadQuery, InternalError, QueryLimit, QuotaExceeded, TidybergError, Unsupported
from tidyberg.model.sizes import MB, format_size
from tidyberg.model.table import TableRef
from tidyberg.operations import query_process
from tidyberg.operations.query_results import plain_result
from tidyberg.operations.requests import QueryOperation
from tidyberg.operations.table_rows import TableRows, table_rows
from tidyberg.settings.operations import OperationSettings

_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # Python itself may need them to start
_PIPE_CLOSED = (BrokenPipeError, OSError, pa.ArrowException, ValueError)


@dataclass(frozen=True)
class QueryRunner:
    """Runs queries, each in a process of its own. Threads may share one."""

    settings: OperationSettings
    control: Control = field(repr=False)
    _running: threading.BoundedSemaphore = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_running", threading.BoundedSemaphore(self.settings.max_queries))

    def run(self, ref: TableRef, request: QueryOperation) -> dict[str, Any]:
        require_duckdb()
        rows = table_rows(self.control, ref)
        most_rows = min(request.limit or self.settings.max_query_rows, self.settings.max_query_rows)
        order = {
            "sql": request.sql or _select(ref.name, request),
            "table": ref.name,
            "rows": most_rows,
            "result_bytes": self.settings.max_result_size,
            "memory_bytes": self.settings.query_memory,
        }
        with self._turn():
            answer = _Query(self.settings, rows, order).run()
        result = plain_result(answer[:-1], self.settings.max_result_size)
        return {
            "success": True,
            "columns": result.columns,
            "records": result.records,
            "row_count": len(result.records),
            "truncated": result.is_cut or answer[-1:] == b"1",
        }

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._running.acquire(timeout=self.settings.query_seconds):
            raise QuotaExceeded("Too many queries run at once.", hint="Try again later.")
        try:
            yield
        finally:
            self._running.release()


def require_duckdb() -> None:
    if importlib.util.find_spec("duckdb") is None:
        raise Unsupported("QUERY needs DuckDB, which is not installed.", hint="Install tidyberg[operations].")


def _select(table: str, request: QueryOperation) -> str:
    columns = ", ".join(_quoted(name) for name in request.columns) if request.columns else "*"
    # The line break ends a comment in the condition.
    condition = f" WHERE ({request.filter}\n)" if request.filter else ""
    return f"SELECT {columns} FROM {_quoted(table)}{condition}"  # noqa: S608 - the query process checks and confines it


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class _Query:
    """One run of the query process."""

    def __init__(self, settings: OperationSettings, rows: TableRows, order: Mapping[str, Any]) -> None:
        self._settings = settings
        self._rows = rows
        self._order = order
        self._stopped = threading.Event()
        self._timed_out = False
        self._failure: BaseException | None = None

    def run(self) -> bytes:
        process = subprocess.Popen(  # noqa: S603 - the script is ours
            [sys.executable, "-I", str(Path(query_process.__file__)), json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            cwd="/",
        )
        assert process.stdin is not None
        assert process.stdout is not None
        clock = threading.Timer(self._settings.query_seconds, self._end, (process,))
        feeder = threading.Thread(target=self._feed, args=(process, process.stdin), daemon=True)
        try:
            clock.start()
            feeder.start()
            answer = process.stdout.read(2 * self._settings.max_result_size + 16 * MB)
        finally:
            self._stopped.set()
            clock.cancel()
            process.kill()  # it has answered, or it may not continue
            process.wait()
            process.stdout.close()
            feeder.join()
        return self._checked(answer)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        self._timed_out = True
        self._stopped.set()
        process.kill()

    def _feed(self, process: "subprocess.Popen[bytes]", stdin: IO[bytes]) -> None:
        try:
            stdin.write(json.dumps(self._order).encode() + b"\n")
            with pa.ipc.new_stream(stdin, self._rows.schema) as writer:
                for batch in self._rows.batches(self._stopped.is_set):
                    writer.write_batch(batch)
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            # An Arrow stream that ends too early looks complete, so the process must not see its end.
            process.kill()
            if not self._stopped.is_set() and not (isinstance(error, OSError) and not isinstance(error, TidybergError)):
                self._failure = error
        finally:
            with suppress(*_PIPE_CLOSED):
                stdin.close()

    def _checked(self, answer: bytes) -> bytes:
        if answer[:1] == query_process.RESULT and answer[-1:] in (b"0", b"1") and not self._timed_out:
            return answer[1:]
        if answer[:1] == query_process.REFUSED:
            said = json.loads(answer[1:])
            if said["kind"] == "refused":
                raise BadQuery(said["error"])
            if said["kind"] == "defect" and self._failure is None and not self._timed_out:
                raise InternalError(f"The query failed unexpectedly: {said['error']}")
        if self._timed_out:
            raise QueryLimit(
                f"The query took longer than {self._settings.query_seconds:g} s.",
                hint="Read fewer rows. The limit is operations.query_seconds.",
            )
        if self._failure is not None:
            raise self._failure
        raise QueryLimit(
            f"The query needs more memory than {format_size(self._settings.query_memory)}.",
            hint="Read fewer rows or columns. The limit is operations.query_memory.",
        )
