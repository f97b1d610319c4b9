"""Reads query logs: SQL files, and JSON lines with a query and how often it ran."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from sqlglot import Dialects

from tidyberg.errors import BadInput
from tidyberg.planning.workload.sql_queries import LoggedQuery, statements

MOST_QUERIES = 100_000
_TEXT_NAMES = ("query", "sql", "statement")
_FIRST_MILLISECONDS = 1e11  # a number of seconds reaches it in the year 5138


@dataclass(frozen=True, slots=True)
class QueryLog:
    queries: tuple[LoggedQuery, ...] = ()
    unreadable: tuple[str, ...] = ()  # why entries of the log were left out

    def __add__(self, other: "QueryLog") -> "QueryLog":
        return QueryLog(self.queries + other.queries, self.unreadable + other.unreadable)


def check_dialect(dialect: str | None) -> None:
    if dialect is not None and dialect.lower() not in Dialects.__members__.values():
        raise BadInput(f"{dialect!r} is not a dialect of SQL.", hint="Use spark, trino, duckdb or another of sqlglot.")


def sql_log(text: str) -> QueryLog:
    """The statements of a file. Statements with the same text are one query that ran several times."""
    found: dict[str, float] = {}
    for statement in statements(text):
        found[statement] = found.get(statement, 0.0) + 1
        _refuse_more(len(found))
    return QueryLog(tuple(LoggedQuery(statement, count) for statement, count in found.items()))


def json_log(text: str) -> QueryLog:
    """The queries of a log with one JSON object per line. One bad line does not spoil the others."""
    found: list[LoggedQuery] = []
    unreadable: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(_entry(json.loads(line)))
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                unreadable.append(f"line {number}: {_words(error)}")
        _refuse_more(len(found))
    return QueryLog(tuple(found), tuple(unreadable))


def _entry(entry: Any) -> LoggedQuery:
    if not isinstance(entry, dict):
        raise ValueError("it is not a JSON object")
    text = next((entry[name] for name in _TEXT_NAMES if isinstance(entry.get(name), str)), "").strip()
    if not text:
        raise ValueError("it has neither query, sql nor statement")
    count = entry.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int | float) or not isfinite(count) or count <= 0:
        raise ValueError("its count is not a positive number")
    return LoggedQuery(text.rstrip(";"), float(count), _moment(entry.get("timestamp")))


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("its timestamp is neither a text nor a number")
    seconds = value / 1000 if abs(value) >= _FIRST_MILLISECONDS else value
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _words(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg})"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _refuse_more(count: int) -> None:
    if count > MOST_QUERIES:
        raise BadInput(
            f"The log has more than {MOST_QUERIES:,} queries.", hint="Count equal queries, and give the most frequent."
        )
