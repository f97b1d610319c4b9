"""Query logs: SQL files and JSON lines. A bad line does not spoil the others."""

from datetime import datetime

import pytest

from tidyberg.errors import BadInput
from tidyberg.planning.workload import query_log
from tidyberg.planning.workload.query_log import QueryLog, check_dialect, json_log, sql_log
from tidyberg.planning.workload.sql_queries import LoggedQuery


def test_equal_statements_of_a_file_are_counted() -> None:
    assert sql_log("select 1; select 2;\nselect 1;").queries == (LoggedQuery("select 1", 2), LoggedQuery("select 2"))
    assert sql_log(" ;; -- nothing\n").queries == ()


def test_a_line_has_a_query_under_one_of_three_names_with_count_and_time() -> None:
    log = json_log(
        '{"query": "select 1;", "count": 12, "user": "ada"}\n\n'
        '{"sql": "select 2", "timestamp": "2026-11-17T10:00:00+01:00"}\n'
        '{"statement": "select 3", "timestamp": 1763370000}\n'
        '{"statement": "select 4", "timestamp": 1763370000000}\n'
    )
    assert log.queries == (
        LoggedQuery("select 1", 12),
        LoggedQuery("select 2", 1, datetime.fromisoformat("2026-11-17T09:00")),
        LoggedQuery("select 3", 1, datetime.fromisoformat("2025-11-17T09:00")),
        LoggedQuery("select 4", 1, datetime.fromisoformat("2025-11-17T09:00")),
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("select 1", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ('{"text": "select 1"}', "it has neither query, sql nor statement"),
        ('{"query": ""}', "it has neither query, sql nor statement"),
        ('{"query": "select 1", "count": 0}', "its count is not a positive number"),
        ('{"query": "select 1", "count": "3"}', "its count is not a positive number"),
        ('{"query": "select 1", "count": true}', "its count is not a positive number"),
        ('{"query": "select 1", "count": 1e999}', "its count is not a positive number"),
        ('{"query": "select 1", "timestamp": "yesterday"}', "Invalid isoformat"),
        ('{"query": "select 1", "timestamp": [1]}', "its timestamp is neither a text nor a number"),
        ('{"query": "select 1", "timestamp": 1e30}', ""),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_a_bad_line_is_counted_with_its_number(line: str, reason: str) -> None:
    log = json_log('{"sql": "select 1"}\n' + line + '\n{"sql": "select 2"}')
    assert [one.text for one in log.queries] == ["select 1", "select 2"]
    (problem,) = log.unreadable
    assert problem.startswith("line 2: ")
    assert reason in problem


def test_logs_add_up() -> None:
    both = sql_log("select 1") + json_log("x")
    assert (len(both.queries), len(both.unreadable)) == (1, 1)
    assert both + QueryLog() == both


def test_a_log_has_a_bounded_number_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_log, "MOST_QUERIES", 2)
    with pytest.raises(BadInput, match="more than 2 queries"):
        sql_log("select 1; select 2; select 3")
    with pytest.raises(BadInput, match="more than 2 queries"):
        json_log('{"sql": "a"}\n' * 3)


def test_an_unknown_dialect_is_refused() -> None:
    check_dialect("Trino")
    check_dialect(None)
    with pytest.raises(BadInput, match="'klingon' is not a dialect"):
        check_dialect("klingon")
