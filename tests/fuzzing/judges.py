"""Compares outputs with their inputs by four judges: Arrow, DuckDB, DataFusion, and our file checker."""

import datetime as dt
import re
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidyberg.execute.kernel.check.outputs import output_problems
from tidyberg.model.task import TaskInput, TaskResult
from tidyberg.parquet.check.file import check_path

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Reader = Callable[[Sequence[str], str], list[str]]


def texts(table: pa.Table) -> list[str]:
    """Returns the rows as text, because NaN is not equal to itself, in the order of the first column."""
    return sorted(repr(_plain(row)) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    """Makes types equal: a UUID becomes bytes, because not every writer marks UUIDs, and UTC gets one name."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, str) and _UUID.fullmatch(value):
        return uuid.UUID(value).bytes
    return value.bytes if isinstance(value, uuid.UUID) else value


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def by_duckdb(paths: Sequence[str], where: str) -> list[str]:
    return texts(_duckdb().sql(f"SELECT * FROM read_parquet({list(paths)}) WHERE {where}").to_arrow_table())


def by_datafusion(paths: Sequence[str], where: str) -> list[str]:
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    found = []
    for number, path in enumerate(paths):
        context.register_parquet(f"t{number}", path)
        batches = context.sql(f"SELECT * FROM t{number} WHERE {where}").collect()
        found += [line for batch in batches for line in texts(pa.Table.from_batches([batch]))]
    return sorted(found)


READERS: list[Reader] = [by_duckdb, by_datafusion]


def check(
    result: TaskResult,
    inputs: Sequence[TaskInput],
    expected: pa.Table,
    filters: Sequence[tuple[str, pc.Expression]],
    totals: Counter[str],
) -> None:
    """Raises AssertionError unless all judges agree on all rows and on the rows that match filters."""
    outputs = [output.path for output in result.outputs]
    assert result.rows_read == result.rows_written == expected.num_rows
    if not outputs:
        assert expected.num_rows == 0
        return
    found = pa.concat_tables([pq.read_table(path).cast(expected.schema) for path in outputs])
    assert texts(found) == texts(expected)
    moved = result.mode == "copy" or result.bytes_spliced
    problems = output_problems(result.outputs, inputs if moved else (), lambda path, _: check_path(path))
    assert not problems, "\n".join(map(str, problems))
    paths = [file.path for file in inputs if file.records]
    for where, mask in filters:
        truth = texts(expected.filter(mask))
        column, _, condition = where.partition(" ")
        misleads_duckdb = condition == "IS NULL" and any(has_plain_bytes(path, column) for path in (*outputs, *paths))
        for read in READERS:
            if read is by_duckdb and misleads_duckdb:
                totals["queries that DuckDB answers wrongly"] += 1
                continue
            found = _after(read, outputs, where)
            if found != truth:  # readers spell some types in ways of their own, in the inputs too
                before = _before(read, paths, where)
                assert before is None or found == before, (read.__name__, where, found)
                totals[f"queries that {read.__name__} cannot answer"] += before is None
            totals[f"queries {read.__name__}"] += 1


def has_plain_bytes(path: str, column: str) -> bool:
    """DuckDB 2.0.0 evaluates IS NULL wrongly for plain text or bytes if a page has a single value."""
    footer = pq.read_metadata(path)
    groups = map(footer.row_group, range(footer.num_row_groups))
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return any(
        chunk.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY") and not chunk.has_dictionary_page
        for chunk in chunks
        if chunk.path_in_schema.split(".")[0] == column
    )


def _after(read: Reader, paths: Sequence[str], where: str) -> list[str] | str:
    try:
        return read(paths, where)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a defect only if the inputs could be read
        return repr(error)


def _before(read: Reader, paths: Sequence[str], where: str) -> list[str] | None:
    """Returns what a reader finds in each input. Returns None if it cannot read one of them."""
    found: list[str] = []
    for path in paths:
        try:
            found += read([path], where)
        except Exception:  # noqa: BLE001 - whatever it is, the reader could not read it before either
            return None
    return sorted(found)
