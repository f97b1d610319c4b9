"""One cell of the matrix: a table is built, rewritten, and read by every reader before and after."""

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.builders.checked_files import report
from tests.builders.parquet_writers import unknown_problems
from tests.matrix.filters import Filter, filters_of
from tests.matrix.limits import limit_of
from tests.matrix.modes import COPY, JOIN, SPLICE, Mode, Rewritten, rewrite
from tests.matrix.readers import READERS, Reader, Unsupported
from tests.matrix.shapes import Shape
from tests.matrix.tables import NAME, Built, Layout, build, data_files
from tests.matrix.writers import Writer
from tidyberg.testing import Warehouse

Sample = Callable[[Iterable[Filter]], Sequence[Filter]]


@dataclass(frozen=True)
class Cell:
    writer: Writer
    shape: Shape
    mode: Mode
    layout: Layout
    filtering: tuple[type[Reader], ...] = READERS  # by filters; all of them read every row

    def __str__(self) -> str:
        return f"{self.writer}-{self.shape}-{self.mode}-{self.layout}"


def is_possible(cell: Cell) -> bool:
    """Returns False if the writer cannot write the shape, or if its schema cannot evolve."""
    if cell.writer.cannot(cell.shape):
        return False
    if cell.layout.evolved and cell.shape.nested:
        return False  # its names are those of lists
    return not (cell.layout.evolved and cell.writer.name == "fastparquet")


@dataclass
class Tally:
    """The result of a cell, for the summary of a run."""

    cell: str
    mode: str
    bytes_copied: int = 0
    bytes_spliced: int = 0
    bytes_joined: int = 0
    files_joined: int = 0
    bytes_encoded: int = 0
    filters: int = 0
    unsupported: int = 0  # filters that a reader does not have
    limits: Counter[str] = field(default_factory=Counter)  # of readers, met before and after
    reasons: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        # Not asdict of counters: it would count pairs of a key and its count.
        return vars(self) | {"limits": dict(self.limits)}


def run_cell(cell: Cell, directory: Path, sample: Sample) -> Tally:
    """Raises AssertionError with all problems. `sample` selects from the filters on all columns."""
    tally = Tally(str(cell), cell.mode.name)
    with Warehouse(directory / "lab") as warehouse:
        built = build(warehouse, cell.shape, cell.writer, cell.layout)
        lineage = _lineage(warehouse, built)
        rewritten = rewrite(warehouse, NAME, cell.mode, rewrite_to_current_spec=cell.layout.moves)
        count(tally, rewritten)
        outputs = data_files(warehouse)
        wrong = missed_mode(cell, rewritten)
        # Not asserted: to explain how so many long texts differ takes pytest minutes.
        wrong += ["rows have other ids"] if _lineage(warehouse, built) != lineage else []
    left = set(outputs) & set(built.inputs)
    if left and not cell.layout.partitioned:  # where a file may be alone in its partition
        wrong.append(f"{len(left)} inputs were left as they are")
    wrong += new_problems(built, [path for path in outputs if path not in left])
    wanted = sample(filters_of(built.rows, cell.shape.filtered))
    truth = canonical(built.rows, built.rows.schema)
    for kind in READERS:
        filters = wanted if kind in cell.filtering else ()
        wrong += judge(kind, cell.writer.name, built, truth, outputs, tally, filters)
    assert not wrong, f"{cell}:\n" + "\n".join(wrong[:20])
    return tally


def new_problems(built: Built, outputs: Sequence[str]) -> list[str]:
    """Returns the problems that the file checker finds in outputs. A copy keeps the statements of its inputs."""
    found = [problem for path in outputs for problem in unknown_problems(report(Path(path)))]
    # What holds for a chunk holds for each of its pages: splices say so of pages that were a dictionary's.
    found = [problem for problem in found if not problem.rule.endswith("-loose")]
    if found:
        old = {problem.rule for path in built.inputs for problem in report(Path(path)).problems}
        found = [problem for problem in found if problem.rule not in old]
    return [f"{problem}" for problem in found[:5]]


def count(tally: Tally, rewritten: Rewritten) -> None:
    tally.bytes_copied, tally.bytes_spliced = rewritten.bytes_copied, rewritten.bytes_spliced
    tally.files_joined, tally.bytes_joined = rewritten.files_joined, rewritten.bytes_joined
    tally.bytes_encoded, tally.reasons = rewritten.bytes_encoded, rewritten.reasons


def _lineage(warehouse: Warehouse, built: Built) -> list[str]:
    is_v3 = built.table.metadata.format_version > 2
    return warehouse.rows(built.table, lineage=True) if is_v3 else []


def missed_mode(cell: Cell, rewritten: Rewritten) -> list[str]:
    """Checks that the mode was really used. A silent fallback would prove nothing."""
    if cell.mode is COPY and must_copy(cell) and (rewritten.bytes_encoded or not rewritten.bytes_copied):
        return [f"not copied: {rewritten.reasons}"]
    if cell.mode is SPLICE and must_splice(cell) and not rewritten.bytes_spliced:
        return ["nothing was spliced"]
    if cell.mode is JOIN and must_join(cell) and not rewritten.files_joined:
        return ["no files were joined"]
    return []


def must_copy(cell: Cell) -> bool:
    """Returns True for files of one writer with the table's schema and without deletes."""
    return cell.layout.may_copy and not cell.writer.others and not _spells_otherwise(cell)


def _spells_otherwise(cell: Cell) -> bool:
    """True if the writer's schema differs from the table's: a required id, a UUID as bytes, other names in maps."""
    if cell.shape.required and not cell.writer.gives_ids:
        return True
    spelled_by_arrow_rs = cell.writer.name.startswith(("arrow-rs", "datafusion"))
    has_maps_or_uuids = cell.shape.name in ("nested", "every-type", "times-and-uuids")
    return spelled_by_arrow_rs and has_maps_or_uuids


def must_splice(cell: Cell) -> bool:
    """True for plain pages that stay in place. Equality deletes apply to every older file, so they rule it out."""
    in_place = not cell.layout.moves and not cell.layout.evolved and cell.layout.deletes != "keys"
    return cell.writer.plain and in_place and cell.shape.name != "nested"


def must_join(cell: Cell) -> bool:
    flat = not cell.shape.nested and not cell.layout.evolved
    return cell.writer.single_pages and flat and not cell.layout.deletes and not cell.layout.partitioned


def judge(
    kind: type[Reader],
    writer: str,
    built: Built,
    truth: list[str],
    outputs: Sequence[str],
    tally: Tally,
    filters: Iterable[Filter],
) -> list[str]:
    """What a reader does not find in the outputs; a limit excuses only what it did not find in the inputs either.

    `truth` is the canonical form of the table's rows.
    """
    try:
        after = kind(outputs)
        rows = after.rows()
    except Exception as error:  # noqa: BLE001  (whatever a reader raises)
        return _unreadable(writer, kind, built, tally, error)
    if canonical(rows, built.rows.schema) != truth:
        limit = limit_of(kind.name, writer, None, built.rows)
        if limit is None or not _differ_in_floats_only(rows, built.rows) or not _misread(kind, built):
            return [f"{kind.name} reads other rows: {first_difference(rows, built.rows)}"]
        tally.limits[f"{limit.reader}: {limit.what}"] += 1
    wrong = []
    for wanted in filters:
        tally.filters += 1
        try:
            problem = "" if after.found(wanted) == after.expected(wanted) else "other rows"
        except Unsupported:
            tally.unsupported += 1
            continue
        except Exception as error:  # noqa: BLE001
            problem = str(error)
        if not problem:
            continue
        limit = limit_of(kind.name, writer, wanted, built.rows, "" if problem == "other rows" else problem)
        if limit is None or not (limit.by_specification or _was_wrong(kind, built, wanted)):
            wrong.append(f"{kind.name} finds {problem[:300]} by {wanted}")
        else:
            tally.limits[f"{limit.reader}: {limit.what}"] += 1
    return wrong


def _differ_in_floats_only(rows: pa.Table, truth: pa.Table) -> bool:
    others = pa.schema([one for one in truth.schema if not pa.types.is_floating(one.type) and one.name != "inside"])
    return canonical(rows, others) == canonical(truth, others)


def _misread(kind: type[Reader], built: Built) -> bool:
    """Returns True if the reader misreads values of the inputs too."""
    for path in built.inputs:
        rows = kind([path]).rows()
        ids = set(rows["id"].to_pylist()) & set(built.rows["id"].to_pylist())
        schema = pa.schema([one for one in built.rows.schema if one.name in rows.schema.names])
        if canonical(_having(rows, ids), schema) != canonical(_having(built.rows, ids), schema):
            return True
    return False


def _having(rows: pa.Table, ids: set[int]) -> pa.Table:
    return rows.filter(pa.array([number in ids for number in rows["id"].to_pylist()], pa.bool_()))


def _was_wrong(kind: type[Reader], built: Built, wanted: Filter) -> bool:
    try:
        before = kind(built.inputs)
        return before.found(wanted) != before.expected(wanted)
    except Exception:  # noqa: BLE001
        return True


def _unreadable(writer: str, kind: type[Reader], built: Built, tally: Tally, error: Exception) -> list[str]:
    try:
        kind(built.inputs).rows()
    except Exception as earlier:  # noqa: BLE001
        limit = limit_of(kind.name, writer, None, built.rows, str(earlier))
        if limit is not None:
            tally.limits[f"{limit.reader}: {limit.what}"] += 1
            return []
    return [f"{kind.name} cannot read it: {type(error).__name__}: {str(error)[:300]}"]


def canonical(rows: pa.Table, schema: pa.Schema) -> list[str]:
    """Returns the rows in the order of their ids, as text that distinguishes -0.0 from 0.0."""
    columns = [[_plain(value, one.type) for value in _python(rows[one.name])] for one in schema]
    return sorted(map(repr, zip(*columns, strict=True)))


def _python(values: pa.ChunkedArray) -> list[Any]:
    """Converts nanoseconds to numbers, because Python has no such type."""
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        values = values.cast(pa.int64())
    found: list[Any] = values.to_pylist()
    return found


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kind == pa.uuid():
        return _uuid(value).hex
    if pa.types.is_struct(kind):
        return tuple(_plain(value[one.name], one.type) for one in kind)
    if pa.types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else (_pair(item) for item in value)
        return [(key, _plain(item, kind.item_type)) for key, item in pairs]
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat()
    return value


def _uuid(value: Any) -> uuid.UUID:
    """Converts a UUID. DuckDB returns text, or its bytes if Arrow has joined it with a column of bytes."""
    if isinstance(value, bytes) and len(value) == 16:
        return uuid.UUID(bytes=value)
    return uuid.UUID(value.decode() if isinstance(value, bytes) else str(value))


def _pair(item: Any) -> tuple[Any, Any]:
    """Returns the pairs of a map. Polars has lists of structs instead."""
    return (item["key"], item["value"]) if isinstance(item, dict) else item


def first_difference(rows: pa.Table, truth: pa.Table) -> str:
    for one in truth.schema:
        left, right = (
            canonical(
                side.select(["id", one.name]) if one.name != "id" else side.select(["id"]),
                pa.schema([truth.schema.field("id"), one] if one.name != "id" else [one]),
            )
            for side in (rows, truth)
        )
        if left != right:
            pairs = [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
            return f"{one.name}: {pairs[0] if pairs else (len(left), len(right))}"
    return "rows only"
