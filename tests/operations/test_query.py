"""QUERY reads what any reader of the table reads, within limits of rows, time and memory."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.builders.table_operations import Tables, open_tables
from tidyberg.model.tenant_namespaces import tenant_namespace
from tidyberg.testing.deletes import delete_equal, delete_positions, delete_rows

LIMITS = {"query_seconds": 20, "query_memory": "96MB", "max_query_rows": 50, "max_result_size": "64KB"}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """Ten people in two files, read with low limits."""
    with open_tables(tmp_path_factory.mktemp("limited"), operations=LIMITS) as tables:
        tables.create()
        for half in (0, 5):
            tables.call("WRITE", records=[{"name": f"n{age}", "age": age} for age in range(half, half + 5)])
        yield tables


def test_rows_are_read_by_sql(limited: Tables) -> None:
    answer = limited.call("QUERY", sql="SELECT name, age FROM users WHERE age > 7 ORDER BY age DESC")
    assert answer == {
        "success": True,
        "columns": ["name", "age"],
        "records": [{"name": "n9", "age": 9}, {"name": "n8", "age": 8}],
        "row_count": 2,
        "truncated": False,
    }


def test_rows_are_read_by_columns_filter_and_limit(limited: Tables) -> None:
    answer = limited.call("QUERY", columns=["name"], filter="age >= 5 -- old", limit=2)
    assert (answer["columns"], answer["row_count"], answer["truncated"]) == (["name"], 2, True)
    assert limited.call("QUERY")["row_count"] == 10


def test_a_table_can_be_read_twice_in_one_query(limited: Tables) -> None:
    joined = "SELECT count(*) AS n FROM users a JOIN users b ON a.age <= b.age"
    assert limited.rows(joined) == [{"n": 55}]
    named = "WITH x AS (SELECT age FROM users) SELECT (SELECT sum(age) FROM x) AS s, count(*) AS n FROM x"
    assert limited.rows(named) == [{"s": 45, "n": 10}]


def test_values_without_json_are_texts(limited: Tables) -> None:
    sql = """SELECT DATE '2024-01-31' AS d, TIMESTAMP '2024-01-31 10:00:00' AS t, 'nan'::DOUBLE AS nan,
      '-inf'::DOUBLE AS inf, 1.50::DECIMAL(4,2) AS m, 'ab'::BLOB AS b, [1, 2] AS l, {'k': 1} AS s, sum(age) AS big,
      1 AS x, 2 AS x FROM users"""
    assert limited.rows(sql) == [
        {"d": "2024-01-31", "t": "2024-01-31T10:00:00", "nan": "NaN", "inf": "-Infinity", "m": "1.50", "b": "YWI=",
         "l": [1, 2], "s": {"k": 1}, "big": 45, "x": 1, "x_1": 2}
    ]  # fmt: skip


def test_more_rows_than_the_limit_are_cut(limited: Tables) -> None:
    answer = limited.call("QUERY", sql="SELECT * FROM range(1000000000)", limit=1000)
    assert (answer["row_count"], answer["truncated"]) == (50, True)


def test_a_large_result_is_cut(limited: Tables) -> None:
    answer = limited.call("QUERY", sql="SELECT repeat('x', 10000) AS x FROM range(40)")
    assert answer["truncated"] is True
    assert answer["row_count"] < 40


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT range(1000000000)",
        "SELECT length(string_agg(repeat('x', 1000), '')) FROM range(100000000)",
        "SELECT count(DISTINCT a.range * 100000 + b.range) FROM range(100000) a, range(100000) b",
    ],
)
def test_a_query_that_needs_too_much_memory_ends(limited: Tables, sql: str) -> None:
    before = psutil.Process(os.getpid()).memory_info().rss
    assert "memory" in limited.refused("QUERY", sql=sql) or "longer" in limited.refused("QUERY", sql=sql)
    assert psutil.Process(os.getpid()).memory_info().rss - before < 200 * 1024 * 1024


def test_a_query_that_takes_too_long_ends(tmp_path: Path) -> None:
    with open_tables(tmp_path, operations={"query_seconds": 5}) as tables:
        tables.create()
        sql = "SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c WHERE a.range + b.range <> c.range"
        assert "longer than 5 s" in tables.refused("QUERY", sql=sql)
        assert not [each for each in psutil.Process().children() if "query_process" in " ".join(each.cmdline())]


def test_a_query_that_is_not_allowed_says_why(limited: Tables) -> None:
    assert limited.refused("QUERY", sql="COPY users TO '/tmp/x'") == "A query is one SELECT; this is COPY."
    assert "only the table 'users'" in limited.refused("QUERY", sql="SELECT * FROM '/etc/passwd'")
    assert "only the table 'users'" in limited.refused("QUERY", filter="1=1) UNION (SELECT * FROM other")
    assert "nope" in limited.refused("QUERY", sql="SELECT nope FROM users")


def test_the_process_has_neither_credentials_nor_files(limited: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    seen: list[Any] = []
    real = subprocess.Popen

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.append(options["env"])
        return real(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", watched)
    limited.rows("SELECT 1 AS x")
    assert "AWS_SECRET_ACCESS_KEY" not in seen[0]
    assert set(seen[0]) <= {"LD_LIBRARY_PATH", "SYSTEMROOT"}


def test_a_damaged_file_fails_the_query(tmp_path: Path) -> None:
    """Half of the rows must never look like all of them."""
    with open_tables(tmp_path) as tables:
        tables.create()
        for number in range(2):
            tables.call("WRITE", records=[{"name": "a", "age": number}])
        (victim, _) = sorted(tmp_path.rglob("*.parquet"))
        victim.unlink()
        answer = tables.operations.handle(
            {"operation": "QUERY", "tenant_id": "test-tenant", "table": "users", "sql": "SELECT * FROM users"}, None
        )
        assert answer.status >= 500
        assert answer.body["success"] is False


def test_a_missing_duckdb_is_reported_with_the_command(limited: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "Install tidyberg[operations]" in limited.refused("QUERY", sql="SELECT 1")


def test_only_so_many_queries_run_at_once(tmp_path: Path) -> None:
    with open_tables(tmp_path, operations={"query_seconds": 0.2, "max_queries": 1}) as tables:
        tables.create()
        with tables.operations.queries._turn():
            assert "Too many queries" in tables.refused("QUERY", 429, sql="SELECT 1")


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_delete_is_applied(tmp_path: Path, version: int) -> None:
    namespace = tenant_namespace("tenant_", "test-tenant", "default")
    with open_tables(tmp_path) as tables:
        lake = tables.warehouse
        table = lake.create_table(f"{namespace}.users", format_version=version)
        lake.append_files(table, 3, 20)
        paths = sorted(file.path for file in lake.live_files(table))
        if version == 2:
            delete_positions(table, paths[0], [0, 3, 19])
        else:
            delete_rows(table, {paths[0]: [0, 3, 19]})
        delete_equal(table, paths[1], {"id": [tables.rows("SELECT min(id) AS id FROM users")[0]["id"]]})
        assert tables.rows("SELECT count(*) AS n FROM users") == [{"n": len(lake.rows(table))}]
        kept = {row["id"] for row in tables.rows("SELECT id FROM users")}
        assert len(lake.rows(table)) < 58
        assert all(any(f"({identifier}," in row for row in lake.rows(table)) for identifier in kept)
