"""Decides whether files can be copied: the meaning of their row groups must not depend on the file they are in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidyberg._version import __version__
from tidyberg.execute.kernel.columns.project import LAST_UPDATED
from tidyberg.execute.kernel.copy.lineage import COLUMNS, LINEAGE, check_stored_lineage
from tidyberg.execute.kernel.read.source import Source, check_writer
from tidyberg.model.task import Task
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import ElementField, FileField, GroupField, changed, number, optional_number, structs
from tidyberg.parquet.schema import Element, difference, elements, expected_elements, schema_of
from tidyberg.parquet.thrift import I32, LIST, STRUCT, Struct, ThriftList

_ICEBERG_SCHEMA = b"iceberg.schema"
_ARROW_SCHEMA = b"ARROW:schema"
_PANDAS = b"pandas"
_CREATED_BY = f"tidyberg version {__version__} (build copy)".encode()


@dataclass(frozen=True)
class CommonFooter:
    """The parts of a footer that all outputs share."""

    version: int
    schema: tuple[int, Any]  # the schema elements of the first input, then those of row lineage
    key_values: dict[bytes, bytes | None]
    created_by: bytes | None
    column_orders: tuple[int, Any] | None
    stores_lineage: frozenset[str]  # inputs that already have the lineage columns
    keeps_bounds: bool
    keeps_sorting: bool
    has_lineage: bool  # the last columns of the outputs are the lineage columns


def check_task(task: Task) -> None:
    """Raises CannotCopy if the task alone rules out a copy, before any file is read."""
    if task.deletes:
        raise CannotCopy("deletes apply to some of its files")
    if task.partitioning is not None:
        raise CannotCopy("its rows move to other partitions")


def common_footer(task: Task, sources: Sequence[Source]) -> CommonFooter:
    """Returns what the outputs' footers share. Raises CannotCopy if the inputs cannot share a footer."""
    first = sources[0]
    stored = frozenset(source.input.path for source in sources if task.lineage and _stores_lineage(task, source))
    shape = elements(first.footer.schema)[: len(expected_elements(task.arrow_schema))]
    for source in sources:
        _check_schema(task, source, shape, stored)
        check_writer(source)
    orders = [_column_orders(source, task.lineage and source.input.path not in stored) for source in sources]
    if any(order != orders[0] for order in orders):
        raise CannotCopy("its files have different column orders")
    _check_row_groups(task, sources)
    writers = {source.footer.created_by for source in sources}
    return CommonFooter(
        version=max(_version(source) for source in sources),
        schema=(LIST, ThriftList(STRUCT, _schema(task, first, stored))),
        key_values=_properties(task, sources),
        # Readers decide by the writer whether to trust bounds, so the name of one writer cannot stand for several.
        created_by=first.footer.created_by if len(writers) == 1 else _CREATED_BY,
        column_orders=orders[0],
        stores_lineage=stored,
        keeps_bounds=len(writers) == 1,
        keeps_sorting=_all_equal([group.get(GroupField.SORTING_COLUMNS) for group in _group_structs(sources)]),
        has_lineage=task.lineage,
    )


def _stores_lineage(task: Task, source: Source) -> bool:
    """Whether the file seems to have lineage columns after the table's own. `_check_schema` checks them."""
    found = elements(source.footer.schema)
    return len(found) > len(expected_elements(task.arrow_schema)) and found[-1].field_id == LAST_UPDATED


def _schema(task: Task, source: Source, stored: frozenset[str]) -> list[Struct]:
    schema = source.footer.schema
    if not task.lineage or source.input.path in stored:
        return schema
    children = number(schema[0], ElementField.CHILDREN, "the number of columns") + COLUMNS
    return [changed(schema[0], {ElementField.CHILDREN: (I32, children)}), *schema[1:], *schema_of(LINEAGE)[1:]]


def _column_orders(source: Source, adds_lineage: bool) -> tuple[int, Any] | None:
    """Returns the column orders. The lineage columns have the order of their type."""
    found = source.footer.struct.get(FileField.COLUMN_ORDERS)
    if found is None or not adds_lineage:
        return found
    orders = structs(source.footer.struct, FileField.COLUMN_ORDERS, "the orders of columns")
    in_order: Struct = {1: (STRUCT, {})}
    return LIST, ThriftList(STRUCT, [*orders, *[in_order] * COLUMNS])


def _check_schema(task: Task, source: Source, shape: list[Element], stored: frozenset[str]) -> None:
    found = elements(source.footer.schema)
    if source.input.path in stored:
        if reason := difference(found[-COLUMNS:], expected_elements(LINEAGE), same_bytes=True):
            raise CannotCopy(f"{source.input.path} stores row lineage in an unusual way: {reason}")
        check_stored_lineage(source)
        found = found[:-COLUMNS]
    if not any(element.field_id is not None for element in found):
        raise CannotCopy(f"{source.input.path} was written without field ids")
    if reason := difference(found, expected_elements(task.arrow_schema), same_bytes=False):
        raise CannotCopy(f"{source.input.path} is not in the table's schema: {reason}")
    if reason := difference(found, shape, same_bytes=True):
        raise CannotCopy(f"{source.input.path} differs from the other files: {reason}")


def _check_row_groups(task: Task, sources: Sequence[Source]) -> None:
    sizes = [group.stored_bytes for source in sources for group in source.footer.row_groups if group.rows]
    average = sum(sizes) / len(sizes) if sizes else 0
    if sizes and average < task.min_row_group_bytes:
        raise CannotCopy(
            f"its {len(sizes)} row groups have {average / 1e6:.1f} MB on average, "
            f"less than the minimum of {task.min_row_group_bytes / 1e6:.1f} MB for a copy"
        )


def _version(source: Source) -> int:
    return optional_number(source.footer.struct, FileField.VERSION, "the version") or 1


def _properties(task: Task, sources: Sequence[Source]) -> dict[bytes, bytes | None]:
    found = _shared_properties(sources) | {_ICEBERG_SCHEMA: task.iceberg_schema.encode()}
    found.pop(_PANDAS, None)  # it may describe the index of a single file
    if task.lineage:
        found.pop(_ARROW_SCHEMA, None)  # it lacks the lineage columns, and Arrow would look for them there
    return found


def _shared_properties(sources: Sequence[Source]) -> dict[bytes, bytes | None]:
    """Returns the key-value metadata that is equal in all files. Other entries may be wrong for an output."""
    first, *others = [source.footer.key_values for source in sources]
    return {
        key: value
        for key, value in first.items()
        if all(key in properties and properties[key] == value for properties in others)
    }


def _group_structs(sources: Sequence[Source]) -> list[Struct]:
    return [group.struct for source in sources for group in source.footer.row_groups if group.rows]


def _all_equal(values: list[Any]) -> bool:
    return all(value == values[0] for value in values)
