"""Decides whether files of older partition specs can move to the current one, and into how many files."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, UnknownTransform, VoidTransform

from tidyberg.model.inventory import Inventory, Partition
from tidyberg.model.plan import Skip
from tidyberg.model.table import Pinned

_COARSER = ("hour", "day", "month", "year")  # each follows from the one before


@dataclass(frozen=True)
class Move:
    """A plan needs these facts to move files to the current spec."""

    spec: PartitionSpec
    specs: Sequence[PartitionSpec]  # the spec of every partition of the inventory
    current_partitions: int  # how many partitions the current spec has already
    refusal: Skip | None  # why rows cannot be assigned to its partitions

    def concerns(self, partition: int) -> bool:
        return self.specs[partition].spec_id != self.spec.spec_id

    def fewest_outputs(self, partition: int) -> int:
        """Estimates how many partitions the rows of one group belong to, without reading them.

        It is one if the old partition determines the new one, as an hour determines the day. Otherwise it is the
        number of partitions that the current spec has so far.
        """
        determined = all(_is_determined_by(field, self.specs[partition]) for field in self.spec.fields)
        return 1 if determined else max(1, self.current_partitions)


def move_to_current_spec(inventory: Inventory) -> Move:
    pinned = inventory.pinned
    partitions: Sequence[Partition] = inventory.partitions
    current = pinned.specs[pinned.default_spec_id]
    return Move(
        spec=current,
        specs=[pinned.specs[partition.spec_id] for partition in partitions],
        current_partitions=sum(partition.spec_id == current.spec_id for partition in partitions),
        refusal=_refusal(current, pinned),
    )


def pack_in_order(file_sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Groups neighbouring files up to the limit. Files written at one time often belong to the same few partitions."""
    groups: list[list[int]] = []
    total = 0
    for position, size in enumerate(file_sizes):
        if not groups or total + size > limit:
            groups.append([])
            total = 0
        groups[-1].append(position)
        total += size
    return groups


def _refusal(spec: PartitionSpec, pinned: Pinned) -> Skip | None:
    for field in spec.fields:
        problem = _problem(field, pinned.schema)
        if problem is not None:
            return Skip("partition-spec", f"cannot be moved to the current partition spec: {field.name} {problem}")
    return None


def _problem(field: PartitionField, schema: Schema) -> str | None:
    transform = field.transform
    if isinstance(transform, UnknownTransform):
        return f"has the unknown transform {transform}"
    try:
        source = schema.find_field(field.source_id)
    except ValueError:
        return "is computed from a column that the table no longer has"
    if not isinstance(transform, VoidTransform) and not transform.can_transform(source.field_type):
        return f"has the transform {transform}, which does not take {source.field_type}"
    return None


def _is_determined_by(field: PartitionField, spec: PartitionSpec) -> bool:
    if isinstance(field.transform, VoidTransform):
        return True
    name = str(field.transform)
    for old in spec.fields:
        if old.source_id != field.source_id:
            continue
        old_name = str(old.transform)
        if isinstance(old.transform, IdentityTransform) or old_name == name:
            return True
        if old_name in _COARSER and name in _COARSER and _COARSER.index(old_name) <= _COARSER.index(name):
            return True
    return False
