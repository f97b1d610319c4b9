"""Builds Iceberg tables from data files of any writer, and deletes rows from them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from tests.matrix.shapes import Shape
from tests.matrix.writers import Writer, give_ids
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.commits import append_data_files
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes

NAME = "db.cells"
ADDED, RENAMED = "added", "renamed"
_WIDER: dict[IcebergType, IcebergType] = {IntegerType(): LongType(), FloatType(): DoubleType()}
Ids = Mapping[tuple[str, ...], int]


@dataclass(frozen=True)
class Layout:
    """The properties of a table besides its files."""

    name: str
    format_version: int = 2
    deletes: str = ""  # positions | keys | vectors
    partitioned: bool = False  # the files are in two partitions
    moves: bool = False  # the spec has changed since they were written, and rows go to the new one
    evolved: bool = False  # so has the schema, after the first file

    @property
    def may_copy(self) -> bool:
        return not (self.deletes or self.moves or self.evolved)

    def __str__(self) -> str:
        return self.name


LAYOUTS = (
    Layout("unpartitioned"),
    Layout("lineage", format_version=3),
    Layout("partitioned", partitioned=True),
    Layout("position-deletes", deletes="positions"),
    Layout("equality-deletes", deletes="keys"),
    Layout("deletion-vectors", format_version=3, deletes="vectors"),
    Layout("moved", moves=True),
    Layout("moved-with-lineage", format_version=3, moves=True),
    Layout("evolved", evolved=True),
    Layout("evolved-with-vectors", format_version=3, deletes="vectors", evolved=True),
)


@dataclass(frozen=True)
class Built:
    """A table and its contents."""

    table: Table
    inputs: tuple[str, ...]  # paths of its data files
    rows: pa.Table  # that no delete took, in the types of the files; the truth


def build(warehouse: Warehouse, shape: Shape, writer: Writer, layout: Layout, **properties: str) -> Built:
    """Builds the table in several commits. The deletes come last."""
    table = warehouse.create_table(
        NAME,
        shape.schema,
        properties={"write.parquet.compression-codec": writer.codec, **properties},
        format_version=max(shape.format_version, layout.format_version),
    )
    if layout.partitioned:
        with table.update_spec() as update:
            update.add_field("id", BucketTransform(2), "part")
        table.refresh()
    directory = Path(local_path(table.location())) / "data"
    directory.mkdir(parents=True)
    ids = field_ids(table.schema())
    paths: list[str] = []
    rows: list[pa.Table] = []
    data_files: list[DataFile] = []
    contents = list(shape.files())
    half = (len(contents) + 1) // 2
    for number, content in enumerate(contents):
        if number == half:
            append_data_files(table, data_files)
            data_files = []
            if layout.evolved:
                evolve(table)
                ids = field_ids(table.refresh().schema())
        old = layout.evolved and number < half
        stored = evolved_rows(content) if layout.evolved and not old else content
        path = directory / f"{number:05}-{writer.of_file(number).name}.parquet"
        write_file(writer.of_file(number), shape, stored, path, ids)
        paths.append(f"file://{path}")
        rows.append(evolved_rows(content) if layout.evolved else content)
        partition = Record(number // 2 % 2) if layout.partitioned else Record()
        data_files.append(_data_file(table, path, stored, partition))
    append_data_files(table, data_files)
    gone = _delete(table, layout, paths, rows)
    if layout.moves:
        with table.update_spec() as update:
            text = next((one.name for one in shape.schema if one.type == pa.string()), None)
            # A few partitions: each becomes a file.
            update.add_field(text or "id", TruncateTransform(2 if text else 300), "part")
        table.refresh()
    everything = pa.concat_tables(rows)
    left = everything.filter(pa.array([number not in gone for number in everything["id"].to_pylist()], pa.bool_()))
    return Built(table.refresh(), tuple(local_path(path) for path in paths), left)


def data_files(warehouse: Warehouse) -> list[str]:
    """Returns the paths of the table's current files."""
    table = warehouse.catalog.load_table(NAME)
    return [local_path(file.path) for file in warehouse.live_files(table) if not file.content.value]


def evolve(table: Table) -> None:
    """Drops the first column, renames the last, promotes what can be promoted, adds one."""
    _, first, *others = table.schema().fields
    with table.update_schema() as update:
        update.delete_column(first.name)
        for one in others:
            if wider := _WIDER.get(one.field_type):
                update.update_column(one.name, wider)
            elif isinstance(one.field_type, DecimalType) and one.field_type.precision < 37:
                update.update_column(one.name, DecimalType(one.field_type.precision + 2, one.field_type.scale))
        update.rename_column(others[-1].name, RENAMED)
        update.add_column(ADDED, StringType())
    table.refresh()


def evolved_rows(rows: pa.Table) -> pa.Table:
    """Returns the same rows in the evolved schema."""
    kept = rows.drop_columns([rows.schema.names[1]])
    kept = kept.rename_columns([*kept.schema.names[:-1], RENAMED])
    columns = [pa.field(one.name, _wider(one.type)) for one in kept.schema]
    kept = kept.cast(pa.schema(columns))
    return kept.append_column(pa.field(ADDED, pa.string()), pa.nulls(kept.num_rows, pa.string()))


def _wider(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision + 2, kind.scale) if kind.precision < 37 else kind
    return {pa.int32(): pa.int64(), pa.float32(): pa.float64()}.get(kind, kind)


def write_file(writer: Writer, shape: Shape, rows: pa.Table, path: Path, ids: Ids) -> None:
    writer.write(with_ids(rows, ids) if writer.gives_ids else rows, path, shape)
    if not writer.gives_ids:
        give_ids(path, ids)


def _delete(table: Table, layout: Layout, paths: list[str], rows: list[pa.Table]) -> set[int]:
    """Deletes rows of some files, including the first and last, which have the bounds. Returns their ids."""
    if not layout.deletes:
        return set()
    losing = [number for number, content in enumerate(rows) if content.num_rows and number % 3 == 1][:5]
    losing = losing or [number for number, content in enumerate(rows) if content.num_rows][:1]
    places = {number: sorted({0, rows[number].num_rows // 2, rows[number].num_rows - 1}) for number in losing}
    ids = {rows[number]["id"][place].as_py() for number, found in places.items() for place in found}
    if layout.deletes == "keys":
        commit_deletes(table, EqualTo({"id": sorted(ids)}))
    elif layout.deletes == "vectors":
        commit_deletes(table, Vectors({paths[number]: found for number, found in places.items()}))
    else:
        commit_deletes(table, Positions({paths[number]: found for number, found in places.items()}))
    table.refresh()
    return ids


def field_ids(schema: Schema) -> dict[tuple[str, ...], int]:
    """Returns field ids by the path of names in Parquet's schema."""
    return dict(_ids(schema.as_struct(), ()))


def _ids(kind: IcebergType, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(kind, StructType):
        for one in kind.fields:
            yield (*above, one.name), one.field_id
            yield from _ids(one.field_type, (*above, one.name))
    elif isinstance(kind, ListType):
        yield (*above, "element"), kind.element_id
        yield from _ids(kind.element_type, (*above, "element"))
    elif isinstance(kind, MapType):
        yield (*above, "key"), kind.key_id
        yield (*above, "value"), kind.value_id
        yield from _ids(kind.key_type, (*above, "key"))
        yield from _ids(kind.value_type, (*above, "value"))


def with_ids(rows: pa.Table, ids: Ids) -> pa.Table:
    return rows.cast(pa.schema([_field(one, (one.name,), ids) for one in rows.schema]))


def _field(one: pa.Field, path: tuple[str, ...], ids: Ids) -> pa.Field:
    metadata = {"PARQUET:field_id": str(ids[path])} if path in ids else None
    return pa.field(path[-1], _type(one.type, path, ids), nullable=one.nullable, metadata=metadata)


def _type(kind: pa.DataType, path: tuple[str, ...], ids: Ids) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_field(one, (*path, one.name), ids) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_field(kind.value_field, (*path, "element"), ids))
    if pa.types.is_map(kind):
        key = _field(kind.key_field, (*path, "key"), ids)
        return pa.map_(key, _field(kind.item_field, (*path, "value"), ids))
    return kind


def _data_file(table: Table, path: Path, rows: pa.Table, partition: Record) -> DataFile:
    """Returns a data file with PyIceberg's metrics from the footer, and NaN counts as Java's writers have them."""
    schema = table.schema()
    footer = pq.read_metadata(path)
    try:
        reported: dict[str, Any] = data_file_statistics_from_parquet_metadata(
            footer, compute_statistics_plan(schema, table.metadata.properties), parquet_path_to_id_mapping(schema)
        ).to_serialized_dict()
    except (KeyError, ValueError, TypeError, NotImplementedError):
        reported = {"record_count": footer.num_rows}  # of columns whose footer PyIceberg does not understand
    reported["nan_value_counts"] = dict(_nans(rows, field_ids(schema)))
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=path.stat().st_size,
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **reported,
    )


def _nans(rows: pa.Table, ids: Ids) -> Iterator[tuple[int, int]]:
    for column in rows.schema:
        if pa.types.is_floating(column.type):
            values = rows[column.name].to_pylist()
            yield ids[(column.name,)], sum(value is not None and math.isnan(value) for value in values)
