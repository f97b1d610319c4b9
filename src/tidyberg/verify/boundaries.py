"""Checks that no output of a group has values on both sides of a boundary at which its outputs end.

The worker divides rows by their values. Here the bounds of each output are compared with the boundaries.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyiceberg.schema import Schema

from tidyberg.model.plan import FileGroup
from tidyberg.model.task import WrittenFile
from tidyberg.verify.bounds import AFTER_SURROGATES, FIRST_SURROGATE, BoundedColumn, bounded_columns


def boundary_problems(group: FileGroup, outputs: Sequence[WrittenFile], schema: Schema) -> Iterator[str]:
    """Yields what is wrong with the outputs of a group with boundaries."""
    if not group.boundaries or group.sort_key is None:
        return
    source_id = group.sort_key.fields[0].source_id
    leaf = bounded_columns(schema)[source_id]
    values = [leaf.decode(bytes.fromhex(text)) for text in group.boundaries]
    for output in outputs:
        lowest = leaf.decode(output.lower_bounds.get(source_id))
        highest = leaf.decode(output.upper_bounds.get(source_id))
        if lowest is None or highest is None:
            continue
        for value in values:
            if _is_below(lowest, value, leaf) and _reaches(highest, value, leaf):
                yield (
                    f"output {output.path} has values of {leaf.name} from {lowest!r} to {highest!r}, "
                    f"but outputs end at {value!r}"
                )


def _is_below(lowest: Any, value: Any, leaf: BoundedColumn) -> bool:
    """Returns True if the least value is below. A lower bound that is cut may belong to a value that is not."""
    return bool(lowest < value and not (leaf.may_be_cut and value.startswith(lowest)))


def _reaches(highest: Any, value: Any, leaf: BoundedColumn) -> bool:
    """Returns True if the greatest value is not below. An upper bound that is cut is above that value."""
    return bool((_before_cut(highest) if leaf.may_be_cut else highest) >= value)


def _before_cut(bound: Any) -> Any:
    """Returns a value that the greatest value is not below, if the bound was made from it by raising its last unit."""
    if not bound:
        return bound
    last = bound[-1] if isinstance(bound, bytes) else ord(bound[-1])
    if last == 0:
        return bound[:-1]
    if isinstance(bound, bytes):
        return bound[:-1] + bytes([last - 1])
    return bound[:-1] + chr(FIRST_SURROGATE - 1 if last == AFTER_SURROGATES else last - 1)
