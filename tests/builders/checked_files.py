"""Sound Parquet files, and ways to falsify one statement in them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.footers import edit_footer, footer_bytes
from tests.builders.tasks import field
from tidyberg.parquet.check.file import FileReport, check_path
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, MetadataField
from tidyberg.parquet.thrift import I64, Struct, read_struct, write_struct

ID, NAME, RATIO, TAGS, PRICE, MAYBE, HUGE, FLAG = range(8)
SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1, nullable=False),
        field("name", pa.string(), 2),
        field("ratio", pa.float64(), 3),
        field("tags", pa.list_(field("element", pa.int32(), 5)), 4),
        field("price", pa.decimal128(30, 2), 6),
        field("maybe", pa.int32(), 7),
        field("huge", pa.uint64(), 8),
        field("flag", pa.bool_(), 9),
    ]
)
ROWS = 100


def table() -> pa.Table:
    numbers = range(ROWS)
    return pa.Table.from_pydict(
        {
            "id": list(numbers),
            "name": [f"näme {n % 10}" for n in numbers],
            "ratio": [None if n % 9 == 0 else float("nan") if n % 10 == 0 else n / 2 for n in numbers],
            "tags": [None if n % 3 == 0 else [n, None, n + 1][: n % 4] for n in numbers],
            "price": pa.array([n - 50 for n in numbers], pa.int64()).cast(pa.decimal128(30, 2)),
            "maybe": [None if n < 50 else n for n in numbers],
            "huge": [2**63 + n for n in numbers],
            "flag": [n % 2 == 0 for n in numbers],
        },
        schema=SCHEMA,
    )


OPTIONS: dict[str, Any] = {
    "row_group_size": 50,
    "max_rows_per_page": 10,
    "write_page_index": True,
    "write_page_checksum": True,
    "compression": "none",
    "bloom_filter_options": {"name": {"ndv": 20, "fpp": 0.01}},
    "use_dictionary": ["name"],
}


def sound_file(path: Path, **options: Any) -> Path:
    pq.write_table(table(), path, **{**OPTIONS, **options})
    assert check_path(path).problems == ()
    return path


def rules(path: Path) -> set[str]:
    return {problem.rule for problem in check_path(path).problems}


def report(path: Path) -> FileReport:
    return check_path(path)


def group(footer: Struct, number: int = 0) -> Struct:
    return footer[FileField.ROW_GROUPS][1].items[number]  # type: ignore[no-any-return]


def chunk(footer: Struct, column: int, number: int = 0) -> Struct:
    return group(footer, number)[GroupField.COLUMNS][1].items[column]  # type: ignore[no-any-return]


def metadata(footer: Struct, column: int, number: int = 0) -> Struct:
    return chunk(footer, column, number)[ChunkField.METADATA][1]  # type: ignore[no-any-return]


def statistics(footer: Struct, column: int, number: int = 0) -> Struct:
    return metadata(footer, column, number)[MetadataField.STATISTICS][1]  # type: ignore[no-any-return]


def put(struct: Struct, field_id: int, value: Any, kind: int | None = None) -> None:
    """Replaces the value of a field. Adds the field if `kind` is given."""
    struct[field_id] = (struct[field_id][0] if kind is None else kind, value)
    ordered = dict(sorted(struct.items()))
    struct.clear()
    struct.update(ordered)


def _append(path: Path, content: bytes) -> int:
    """Appends bytes before the footer, and returns their offset."""
    whole, footer = path.read_bytes(), footer_bytes(path)
    data = whole[: -8 - len(footer)]
    path.write_bytes(data + content + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return len(data)


def edit_index(path: Path, column: int, place: int, edit: Callable[[Struct], None]) -> None:
    """Edits an index of the first row group. `place` is ChunkField.COLUMN_INDEX or ChunkField.OFFSET_INDEX."""
    footer, _ = read_struct(footer_bytes(path))
    index, _ = read_struct(path.read_bytes(), chunk(footer, column)[place][1])
    edit(index)
    content = write_struct(index)
    start = _append(path, content)

    def point(renewed: Struct) -> None:
        put(chunk(renewed, column), place, start)
        put(chunk(renewed, column), place + 1, len(content))

    edit_footer(path, point)


def edit_page(path: Path, column: int, page: int, edit: Callable[[Struct], None]) -> None:
    """Edits a page header. The file has one row group and no page indexes; the chunk moves to its end."""
    footer, _ = read_struct(footer_bytes(path))
    described = metadata(footer, column)
    whole = path.read_bytes()
    first = described[MetadataField.DATA_PAGE][1]
    start = position = described.get(MetadataField.DICTIONARY_PAGE, (I64, first))[1]
    end = start + described[MetadataField.COMPRESSED][1]
    pieces, starts, number = b"", [], 0
    while position < end:
        header, body = read_struct(whole, position)
        after = body + header[3][1]
        if number == page:
            edit(header)
        starts.append(len(pieces))
        pieces += write_struct(header) + whole[body:after]
        position, number = after, number + 1
    moved = _append(path, pieces)

    def point(renewed: Struct) -> None:
        reported = metadata(renewed, column)
        has_dictionary = MetadataField.DICTIONARY_PAGE in reported
        if has_dictionary:
            put(reported, MetadataField.DICTIONARY_PAGE, moved)
        put(reported, MetadataField.DATA_PAGE, moved + starts[1 if has_dictionary else 0])
        put(reported, MetadataField.COMPRESSED, len(pieces))
        grown = len(pieces) - (end - start)
        put(reported, MetadataField.UNCOMPRESSED, reported[MetadataField.UNCOMPRESSED][1] + grown)
        of_group = group(renewed)
        put(of_group, GroupField.TOTAL_BYTES, of_group[GroupField.TOTAL_BYTES][1] + grown)
        put(of_group, GroupField.TOTAL_COMPRESSED, of_group[GroupField.TOTAL_COMPRESSED][1] + grown)

    edit_footer(path, point)
