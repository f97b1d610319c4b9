"""The process that runs one query. It is a script of its own, and imports nothing of tidyberg.

SQL of a tenant is not trusted. So it runs in a process that has no credentials, that cannot write to files, and whose
memory the operating system limits. The rows of the table arrive as an Arrow stream on standard input. The result leaves
as an Arrow stream on standard output, or as a line of JSON that says what is wrong. The parent ends the process when
its time is over.

Standard input cannot be read twice. If a query may read the table more than once, the rows
are first copied into DuckDB's memory.
"""

import json
import resource
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

REFUSED = b"E"  # the first byte of the answer: an error follows
RESULT = b"R"  # an Arrow stream follows
_MB = 1024 * 1024
# Virtual memory that allocators reserve and never use counts towards the limit of the operating system.
_RESERVED = 256 * _MB
_SYSTEM_NAMES = ("duckdb_", "pg_", "pragma_", "sqlite_")
# Table functions without access to files, settings or other tables.
_TABLE_FUNCTIONS = frozenset(("range", "generate_series", "unnest"))
# Scalar functions that show or change anything but their arguments.
_REFUSED_FUNCTIONS = frozenset(
    (
        "current_setting",
        "getenv",
        "getvariable",
        "nextval",
        "currval",
        "current_database",
        "current_schema",
        "current_schemas",
        "current_user",
        "session_user",
        "version",
        "current_query",
        "current_connection_id",
        "current_query_id",
        "current_transaction_id",
        "txid_current",
        "pg_conf_load_time",
        "pg_size_pretty",
        "in_search_path",
        "write_log",
        "parse_duckdb_log_message",
        "create_sort_key",
        "json_serialize_sql",
        "json_deserialize_sql",
        "json_execute_serialized_sql",
        "json_serialize_plan",
        "sleep_ms",
        "error",
    )
)
_SETTINGS = (
    "SET temp_directory=''",
    "SET enable_external_access=false",
    "SET autoinstall_known_extensions=false",
    "SET autoload_known_extensions=false",
    "SET allow_community_extensions=false",
    "SET python_enable_replacements=false",
    "SET enable_progress_bar=false",
    "SET lock_configuration=true",
)


class RefusedError(Exception):
    """The query is not allowed, or it failed."""


def main() -> None:
    sys.path.extend(
        json.loads(sys.argv[1])
    )  # Python starts isolated, and does not look for packages in the environment
    request = json.loads(sys.stdin.buffer.readline())
    answer = sys.stdout.buffer
    sys.setrecursionlimit(10_000)
    try:
        _run(request, sys.stdin.buffer, answer)
    except RefusedError as error:
        answer.write(REFUSED + json.dumps({"kind": "refused", "error": str(error)}).encode())
    except MemoryError:
        answer.write(REFUSED + json.dumps({"kind": "memory", "error": ""}).encode())
    except Exception as error:  # noqa: BLE001 - the parent reports it as a defect
        answer.write(REFUSED + json.dumps({"kind": "defect", "error": f"{type(error).__name__}: {error}"}).encode())
    answer.flush()


def _run(request: Mapping[str, Any], rows: BinaryIO, answer: BinaryIO) -> None:
    import duckdb
    import pyarrow as pa

    _limit_process(int(request["memory_bytes"]))
    connection = confined_connection(int(request["memory_bytes"]) // _MB)
    try:
        references = check(connection, request["sql"], request["table"])
        reader = pa.ipc.open_stream(rows)
        if references > 1:
            connection.register("tidyberg_rows", reader)
            name = _quoted(request["table"])
            connection.execute(f"CREATE TABLE {name} AS FROM tidyberg_rows")
            connection.unregister("tidyberg_rows")
        elif references:
            connection.register(request["table"], reader)
        _send(connection.sql(request["sql"]), request, answer)
    except duckdb.OutOfMemoryException:
        raise MemoryError from None
    except duckdb.Error as error:
        raise RefusedError(str(error).strip().splitlines()[0]) from None


def confined_connection(memory_mb: int) -> Any:
    """Returns a connection to an empty database, from which SQL reaches no file, network or setting."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"memory_limit": f"{max(1, memory_mb)}MiB", "threads": 1})
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


def _send(result: Any, request: Mapping[str, Any], answer: BinaryIO) -> None:
    import pyarrow as pa

    left = int(request["rows"])
    reader = result.limit(left + 1).to_arrow_reader(1024)  # one row more shows that there are more
    size = 0
    is_cut = False
    answer.write(RESULT)
    with pa.ipc.new_stream(answer, reader.schema) as writer:
        for batch in reader:
            size += batch.nbytes
            if size > request["result_bytes"]:
                is_cut = True
                break
            writer.write_batch(batch.slice(0, left))
            if batch.num_rows > left:
                is_cut = True
                break
            left -= batch.num_rows
    answer.write(b"1" if is_cut else b"0")


def check(connection: Any, sql: str, table: str) -> int:
    """Raises RefusedError unless the text is one SELECT on the table. Returns how often the query may read the table.

    DuckDB's own parser decides, so that no other parser can understand a text differently.
    """
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise RefusedError(str(error).strip().splitlines()[0]) from None
    if len(statements) != 1:
        raise RefusedError(f"The request has {len(statements)} statements; a query is one SELECT.")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise RefusedError(f"A query is one SELECT; this is {statements[0].type.name}.")
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    tree = json.loads(text)
    if tree.get("error"):
        raise RefusedError(str(tree.get("error_message") or "The query cannot be understood."))
    return _references(tree, table)


def _references(tree: Any, table: str) -> int:
    nodes = list(_nodes(tree))
    local = {name.lower() for node in nodes for name in _local_tables(node)}
    if table.lower() in local or any(name.startswith(_SYSTEM_NAMES) for name in local):
        raise RefusedError("A common table expression needs a name of its own.")
    count = 0
    for node in nodes:
        kind = node.get("type")
        if kind == "BASE_TABLE":
            count += _check_table(node, table, local)
        elif kind == "TABLE_FUNCTION":
            _check_table_function(node)
        elif kind == "RECURSIVE_CTE_NODE":
            raise RefusedError("WITH RECURSIVE is not allowed.")
        elif kind in ("SHOW_REF", "COPY_DATABASE", "DELIM_GET", "BOUND_TABLE_REF"):
            raise RefusedError("A query reads the table with SELECT. SHOW, DESCRIBE and SUMMARIZE are not allowed.")
        elif node.get("class") == "FUNCTION":
            _check_function(node)
    # A common table expression may be read several times, and each time it reads the table.
    return count + 1 if local and count else count


def _check_table(node: Mapping[str, Any], table: str, local: set[str]) -> int:
    name = str(node.get("table_name", ""))
    if node.get("schema_name") or node.get("catalog_name"):
        raise RefusedError(f"A query names only the table {table!r}, without a schema.")
    if name.lower() in local:
        return 0
    if name.lower() != table.lower():
        raise RefusedError(f"A query can read only the table {table!r} of the request, not {name[:100]!r}.")
    return 1


def _check_table_function(node: Mapping[str, Any]) -> None:
    function = node.get("function")
    name = str(function.get("function_name", "")) if isinstance(function, Mapping) else ""
    if name.lower() not in _TABLE_FUNCTIONS:
        raise RefusedError(f"The table function {name[:100]!r} is not allowed.")


def _check_function(node: Mapping[str, Any]) -> None:
    name = str(node.get("function_name", "")).lower()
    if name in _REFUSED_FUNCTIONS or name.startswith(("duckdb_", "pragma_", "read_", "pg_", "has_", "to_query_")):
        raise RefusedError(f"The function {name[:100]!r} is not allowed.")


def _local_tables(node: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names of the common table expressions of a SELECT."""
    names = node.get("cte_map")
    if isinstance(names, Mapping):
        for entry in names.get("map") or ():
            yield str(entry["key"])


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _limit_process(memory_bytes: int) -> None:
    """Limits what the process may use from now on: memory, and no files."""
    used = _private_memory()
    limit = used + memory_bytes + _RESERVED
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _private_memory() -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - starts faster without pathlib
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
    except (OSError, StopIteration):
        return 1024 * _MB


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


if __name__ == "__main__":
    main()
