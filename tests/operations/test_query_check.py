"""Only one SELECT on the table of the request is a query. DuckDB itself also refuses files and settings."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from tidyberg.operations.query_process import RefusedError, check, confined_connection

REFUSED = [
    "COPY users TO '/tmp/stolen.csv'",
    "COPY (SELECT 1) TO '/tmp/stolen.csv'",
    "EXPORT DATABASE '/tmp/stolen'",
    "IMPORT DATABASE '/tmp/stolen'",
    "ATTACH '/tmp/other.db' AS other",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "SET memory_limit = '100GB'",
    "RESET memory_limit",
    "CALL pragma_version()",
    "CREATE TABLE t AS SELECT 1",
    "CREATE SECRET s (TYPE s3)",
    "CREATE MACRO m() AS 1",
    "INSERT INTO users VALUES ('a', 1)",
    "UPDATE users SET age = 1",
    "DELETE FROM users",
    "MERGE INTO users USING users AS o ON true WHEN MATCHED THEN DELETE",
    "DROP TABLE users",
    "ALTER TABLE users ADD COLUMN x INT",
    "TRUNCATE users",
    "VACUUM",
    "CHECKPOINT",
    "BEGIN TRANSACTION",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "EXPLAIN SELECT * FROM users",
    "DESCRIBE users",
    "SUMMARIZE users",
    "SHOW TABLES",
    "SHOW ALL TABLES",
    "PIVOT users ON age USING count(*)",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY users TO '/tmp/stolen.csv'",
    "",
    "-- nothing",
    "SELEC 1",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM parquet_scan('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('users')",
    "SELECT * FROM json_execute_serialized_sql('{}')",
    "SELECT * FROM iceberg_scan('s3://other')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM python_map_function()",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM pragma_table_info('users')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM \"/etc/passwd.csv\"",
    "SELECT * FROM 's3://bucket/file.parquet'",
    "FROM '/etc/passwd.csv'",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_tables",
    "SELECT * FROM duckdb_tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM other_users",
    "SELECT * FROM users, tenant_other__default.users",
    "SELECT * FROM \"tenant_other__default\".\"users\"",
    "SELECT * FROM memory.main.users",
    "SELECT (SELECT count(*) FROM other_users)",
    "SELECT * FROM users WHERE age IN (SELECT age FROM other_users)",
    "WITH x AS (SELECT * FROM other_users) SELECT * FROM x",
    "WITH users AS (SELECT 1) SELECT * FROM users",
    "SELECT * FROM (WITH duckdb_tables AS (SELECT 1) SELECT 1), duckdb_tables",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
    "SELECT current_setting('memory_limit')",
    "SELECT getenv('HOME')",
    "SELECT read_text('/etc/passwd')",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
]  # fmt: skip


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with confined_connection(256) as opened:
        yield opened


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: str(sql)[:60])
def test_everything_else_is_refused(connection: Any, sql: str) -> None:
    with pytest.raises(RefusedError):
        check(connection, sql, "users")


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("SELECT 1", 0),
        ("SELECT * FROM users", 1),
        ("SELECT * FROM USERS;", 1),
        ("FROM users", 1),
        ("SELECT * FROM users -- all", 1),
        ("SELECT count(*) FROM users, range(3)", 1),
        ("SELECT * FROM users a JOIN users b USING (age)", 2),
        ("SELECT * FROM users UNION ALL SELECT * FROM users", 2),
        ("WITH x AS (SELECT * FROM users) SELECT * FROM x a, x b", 2),
        ("SELECT unnest(range(3))", 0),
    ],
)
def test_a_select_is_accepted(connection: Any, sql: str, reads: int) -> None:
    assert check(connection, sql, "users") == reads


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/stolen.csv'",
        "ATTACH '/tmp/other.db' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET temp_directory = '/tmp'",
        "SELECT * FROM rows_of_the_caller",
    ],
)
def test_duckdb_refuses_it_even_without_the_check(connection: Any, sql: str) -> None:
    """The check is the first line of defence, and this is the second one."""
    rows_of_the_caller = duckdb.sql("SELECT 1")
    assert rows_of_the_caller is not None
    with pytest.raises(duckdb.Error):
        connection.execute(sql).fetchall()
