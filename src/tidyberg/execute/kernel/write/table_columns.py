"""The columns of the table and those of a file that can stand for them byte by byte."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidyberg.execute.kernel.columns.project import Leaf, leaves
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.footer import SchemaLeaf, schema_leaves
from tidyberg.parquet.schema import Element, difference, elements, schema_of
from tidyberg.parquet.thrift import Struct


@dataclass(frozen=True)
class Column:
    """A top-level column of a schema with all that is below it."""

    elements: list[Element]
    leaves: list[SchemaLeaf]
    first_leaf: int

    @property
    def field_id(self) -> int | None:
        return self.elements[0].field_id

    @property
    def is_repeated(self) -> bool:
        """Whether there is a list or a map in it: its pages do not tell how many rows they hold."""
        return any(leaf.repeated for leaf in self.leaves)

    @property
    def leaf_numbers(self) -> range:
        return range(self.first_leaf, self.first_leaf + len(self.leaves))


class TableColumns:
    """The table's columns as Arrow spells them in the footers of its files."""

    def __init__(self, target: pa.Schema) -> None:
        self.columns = columns(schema_of(bytes(target.serialize())))
        self.leaves = leaves(target)
        if [leaf for column in self.columns for leaf in column.leaf_numbers] != list(range(len(self.leaves))):
            raise CannotCopy("Arrow spells the table's schema in a way that this version does not know")

    def leaves_of(self, position: int) -> dict[int, Leaf]:
        """By their numbers in a file."""
        return {number: self.leaves[number] for number in self.columns[position].leaf_numbers}


def columns(schema: list[Struct]) -> list[Column]:
    """A footer's schema, cut at its top-level columns."""
    all_elements, all_leaves = elements(schema), schema_leaves(schema)
    found: list[Column] = []
    position = leaf = 0
    while position < len(all_elements):
        end = _end(all_elements, position)
        below = sum(1 for element in all_elements[position:end] if element.type)
        found.append(Column(all_elements[position:end], all_leaves[leaf : leaf + below], leaf))
        position, leaf = end, leaf + below
    return found


def _end(all_elements: list[Element], position: int) -> int:
    """Where the element after this one and all that is below it stands."""
    end = position + 1
    for _ in range(all_elements[position].children):
        end = _end(all_elements, end)
    return end


def by_field_id(of_file: list[Column]) -> dict[int, list[Column]]:
    found: dict[int, list[Column]] = {}
    for column in of_file:
        if column.field_id is not None:
            found.setdefault(column.field_id, []).append(column)
    return found


def same_column(of_file: Mapping[int, list[Column]], wanted: Column) -> Column:
    """The file's column whose pages mean in the table what they mean in the file; raises CannotCopy without one."""
    if wanted.is_repeated:
        raise CannotCopy("it has lists or maps")
    found = [] if wanted.field_id is None else of_file.get(wanted.field_id, [])
    if len(found) != 1:
        raise CannotCopy("the file does not have it")
    if reason := difference(found[0].elements, wanted.elements, same_bytes=True):
        raise CannotCopy(reason)
    return found[0]
