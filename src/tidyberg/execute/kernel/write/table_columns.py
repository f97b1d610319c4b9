"""Matches columns of the table with columns of a file whose pages mean the same, byte for byte."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidyberg.execute.kernel.columns.project import Leaf, leaves
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.footer import SchemaLeaf, schema_leaves
from tidyberg.parquet.schema import Element, difference, elements, schema_of
from tidyberg.parquet.thrift import Struct


@dataclass(frozen=True)
class TopLevelColumn:
    """A top-level column of a Parquet schema, with all fields below it."""

    elements: list[Element]
    leaves: list[SchemaLeaf]
    first_leaf: int

    @property
    def field_id(self) -> int | None:
        return self.elements[0].field_id

    @property
    def is_repeated(self) -> bool:
        """Whether the column contains a list or a map. Then a page header does not say how many rows the page has."""
        return any(leaf.repeated for leaf in self.leaves)

    @property
    def leaf_numbers(self) -> range:
        return range(self.first_leaf, self.first_leaf + len(self.leaves))


class TableColumns:
    """The table's columns, in the schema that Arrow writes into footers."""

    def __init__(self, target: pa.Schema) -> None:
        self.columns = columns(schema_of(bytes(target.serialize())))
        self.leaves = leaves(target)
        if [leaf for column in self.columns for leaf in column.leaf_numbers] != list(range(len(self.leaves))):
            raise CannotCopy("Arrow writes the table's schema in a form that this version does not know")

    def leaves_of(self, position: int) -> dict[int, Leaf]:
        """Returns the leaves of a column by their numbers in a file."""
        return {number: self.leaves[number] for number in self.columns[position].leaf_numbers}


def columns(schema: list[Struct]) -> list[TopLevelColumn]:
    """Divides a footer's schema into top-level columns."""
    all_elements, all_leaves = elements(schema), schema_leaves(schema)
    found: list[TopLevelColumn] = []
    position = leaf = 0
    while position < len(all_elements):
        end = _end(all_elements, position)
        below = sum(1 for element in all_elements[position:end] if element.type)
        found.append(TopLevelColumn(all_elements[position:end], all_leaves[leaf : leaf + below], leaf))
        position, leaf = end, leaf + below
    return found


def _end(all_elements: list[Element], position: int) -> int:
    """Returns the position after this element and all elements below it."""
    end = position + 1
    for _ in range(all_elements[position].children):
        end = _end(all_elements, end)
    return end


def by_field_id(of_file: list[TopLevelColumn]) -> dict[int, list[TopLevelColumn]]:
    found: dict[int, list[TopLevelColumn]] = {}
    for column in of_file:
        if column.field_id is not None:
            found.setdefault(column.field_id, []).append(column)
    return found


def matching_column(of_file: Mapping[int, list[TopLevelColumn]], wanted: TopLevelColumn) -> TopLevelColumn:
    """Returns the file's column whose pages mean the same in the table. Raises CannotCopy if there is none."""
    if wanted.is_repeated:
        raise CannotCopy("it contains lists or maps")
    found = [] if wanted.field_id is None else of_file.get(wanted.field_id, [])
    if len(found) != 1:
        raise CannotCopy("the file lacks the column")
    if reason := difference(found[0].elements, wanted.elements, same_bytes=True):
        raise CannotCopy(reason)
    return found[0]
