"""Checks the claim of outputs that their rows are in a sort order of the table [I9].

The worker has seen that the rows are in order. Here its claim is compared with the bounds and counts of the outputs: of
two consecutive outputs of a partition, the first must not have greater keys than the second.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pyiceberg.transforms import BucketTransform, TruncateTransform, parse_transform
from pyiceberg.types import IntegerType, LongType

from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.table import Pinned
from tidyberg.model.task import WrittenFile
from tidyberg.verify.bounds import BoundedColumn, bounded_columns


def order_problems(outputs: Sequence[WrittenFile], pinned: Pinned) -> Iterator[str]:
    """Yields what is wrong with the sort orders that the outputs of a group claim."""
    claims = {output.sort_order_id for output in outputs} - {None, 0}
    unknown = sorted(claim for claim in claims if claim is not None and claim not in pinned.sort_orders)
    if unknown:
        yield f"its outputs claim sort order {unknown[0]}, which the table does not have"
        return
    columns = bounded_columns(pinned.schema)
    partitions: dict[str, list[WrittenFile]] = {}
    for output in outputs:
        partitions.setdefault(repr(output.partition), []).append(output)
    for files in partitions.values():
        for first, second in pairwise(files):
            if first.sort_order_id and first.sort_order_id == second.sort_order_id:
                key = pinned.sort_orders[first.sort_order_id]
                problem = _overlap(first, second, key, columns)
                if problem is not None:
                    yield f"outputs {first.path} and {second.path} claim sort order {key.order_id}, but {problem}"


def _overlap(first: WrittenFile, second: WrittenFile, key: SortKey, columns: Mapping[int, BoundedColumn]) -> str | None:
    """Compares the first field of the key. Only if it is equal do the others matter, and bounds say nothing then."""
    field = key.fields[0]
    leaf = columns.get(field.source_id)
    if leaf is None or isinstance(parse_transform(field.transform), BucketTransform):
        return None  # a bucket has no bounds
    with_nulls, without = (second, first) if not field.nulls_last else (first, second)
    if _has_nulls(with_nulls, field) and _has_values(without, field):
        return f"nulls of {leaf.name} are on the wrong side"
    low, high = (second, first) if field.descending else (first, second)
    highest, lowest = leaf.decode(low.upper_bounds.get(field.source_id)), leaf.decode(_lower(high, field))
    if leaf.may_be_cut:  # cut bounds keep their order among each other only
        highest = leaf.decode(_lower(low, field))
    if (
        highest is None
        or lowest is None
        or _wraps_around(lowest, field, leaf)
        or _in_order(highest, lowest, field, leaf)
    ):
        return None
    return f"{leaf.name} is {highest!r} in one and {lowest!r} in the other"


def _wraps_around(lowest: Any, field: SortField, leaf: BoundedColumn) -> bool:
    """Returns True if `truncate` turns the number into one of the greatest, because the lesser one does not exist."""
    transform = parse_transform(field.transform)
    if not isinstance(transform, TruncateTransform) or not isinstance(leaf.type, IntegerType | LongType):
        return False
    least: int = leaf.type.min
    return bool(lowest - lowest % transform.width < least)


def _in_order(highest: Any, lowest: Any, field: SortField, leaf: BoundedColumn) -> bool:
    if highest <= lowest:
        return True
    transform = parse_transform(field.transform).transform(leaf.type)
    return bool(transform(highest) == transform(lowest))  # rows of one day, for example, are in any order


def _lower(output: WrittenFile, field: SortField) -> bytes | None:
    return output.lower_bounds.get(field.source_id)


def _has_nulls(output: WrittenFile, field: SortField) -> bool:
    return output.null_value_counts.get(field.source_id, 0) > 0


def _has_values(output: WrittenFile, field: SortField) -> bool:
    nulls = output.null_value_counts.get(field.source_id)
    return nulls is not None and nulls < output.records
