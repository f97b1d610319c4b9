"""The client of the oracle, which is Iceberg's Java runtime on Spark. Tests send it requests through pipes."""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.oracle.canonical import canonical_rows
from tests.servers.server import ClosedAtExit
from tidyberg.testing import Warehouse


class OracleMissingError(Exception):
    """Java, Spark or Iceberg's runtime is not available on this machine."""


class OracleError(Exception):
    """Java refused a statement. The message is Java's."""


class Oracle(ClosedAtExit):
    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the oracle)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "TZ": "UTC", "PYSPARK_PYTHON": sys.executable},
            start_new_session=True,  # Ctrl-C is for the tests; the oracle ends when its pipe closes
        )
        try:
            self._receive()
        except OracleError as error:
            self.close()
            raise OracleMissingError(str(error)) from None

    def attach(self, warehouse: Warehouse) -> "JavaCatalog":
        """Returns Java's view of the same catalog and tables."""
        database = warehouse.properties["uri"].removeprefix("sqlite:///")
        key = self.ask("attach", warehouse.name, database, warehouse.properties["warehouse"])
        return JavaCatalog(self, warehouse.name, key)

    def attach_rest(self, name: str, uri: str) -> "JavaCatalog":
        """Returns Java's view of a REST catalog, with Iceberg's own REST client."""
        return JavaCatalog(self, name, self.ask("attach_rest", name, uri))

    def ask(self, operation: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        pickle.dump((operation, arguments), self._process.stdin)
        self._process.stdin.flush()
        return self._receive()

    def close(self) -> None:
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        try:
            status, value = pickle.load(self._process.stdout)
        except EOFError:
            raise OracleError(f"the oracle ended: {self._last_words()}") from None
        if status == "error":
            raise OracleError(value)
        return value

    def _last_words(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4000))
        return self._log.read().decode(errors="replace")


class JavaCatalog:
    """A catalog as Java sees it. Table names have the form `namespace.table`."""

    def __init__(self, oracle: Oracle, name: str, key: Any) -> None:
        self._oracle = oracle
        self._key = key
        self.name = name

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._oracle.ask("sql", self._key, text)
        return rows

    def set_conf(self, name: str, value: str) -> None:
        self._oracle.ask("set_conf", self._key, name, value)

    def rows(self, table: str, where: str | None = None, snapshot_id: int | None = None) -> list[str]:
        """Returns every row as Java reads it, in the sorted form of `arrow_rows`."""
        version = f" VERSION AS OF {snapshot_id}" if snapshot_id is not None else ""
        condition = f" WHERE {where}" if where else ""
        return canonical_rows(self.sql(f"SELECT * FROM {table}{version}{condition}"))

    def generic_rows(self, table: str) -> list[str]:
        """Returns every row as Iceberg's generic reader reads it, for tables with types that Spark cannot read."""
        rows: list[str] = self._oracle.ask("generic_rows", self._key, table)
        return rows

    def call(self, procedure: str, **arguments: Any) -> list[tuple[Any, ...]]:
        """Runs `CALL system.procedure(name => value)`. Texts are quoted, and other values are printed."""
        given = ", ".join(f"{name} => {_literal(value)}" for name, value in arguments.items())
        return self.sql(f"CALL {self.name}.system.{procedure}({given})")

    def equality_delete(
        self, table: str, keys: Mapping[str, Sequence[Any]], partition: Sequence[Any] | None = None
    ) -> str:
        """Commits an equality delete over the columns of `keys`. Returns the path of the delete file."""
        path: str = self._oracle.ask("equality_delete", self._key, table, keys, partition)
        return path

    def rewrite_file(self, table: str, old: str, new: str, snapshot_id: int) -> None:
        """Replaces a data file by a copy of it, as a compaction that started from that snapshot would."""
        self._oracle.ask("rewrite_file", self._key, table, old, new, snapshot_id)

    def add_column(self, table: str, parent: str | None, name: str, kind: str, default: Any) -> None:
        """Adds a column with a default for existing rows, which Spark's SQL cannot do."""
        self._oracle.ask("add_column", self._key, table, parent, name, kind, default)


def _literal(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = ", ".join(f"'{key}', '{item}'" for key, item in value.items())
        return f"map({entries})"
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)
