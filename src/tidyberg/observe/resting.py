"""Which data files may be counted only, once the delete files are known; and counts of many tasks as one table."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import VoidTransform

from tidyberg.manifests.entries import ManifestEntries
from tidyberg.manifests.partition_tuples import distinct, layout_of, texts_of, tuples_of
from tidyberg.manifests.text_filter import build_filter
from tidyberg.model.inventory import Partition
from tidyberg.model.manifest import Layout, ManifestInfo, RestRule

EQUALITY_DELETES = 2  # the content of a file, as manifests say it

Read = tuple[ManifestInfo, ManifestEntries]
Select = Callable[[Sequence[Partition]], Sequence[bool]]


@dataclass(frozen=True)
class Resting:
    """What a plan need not see; `select` tells the partitions that it is asked for, None: all."""

    rule: RestRule
    select: Select | None = None


def unpartitioned(specs: Mapping[int, PartitionSpec]) -> list[int]:
    """Specs without a partition: equality deletes that are written in them reach the whole table."""
    return [
        spec_id
        for spec_id, spec in specs.items()
        if all(isinstance(field.transform, VoidTransform) for field in spec.fields)
    ]


def but_for_deletes(rule: RestRule, deletes: Sequence[Read], global_specs: Collection[int]) -> RestRule:
    """The rule, knowing what the delete files reach: a file, a partition, or all."""
    until = everywhere = -1
    named: list[str] = []
    partitions: set[str] = set()
    layouts: dict[int, set[Layout]] = {}
    for info, entries in deletes:
        table = entries.table
        if not table.num_rows:
            continue
        latest = max(info.sequence_number, pc.max(table["sequence_number"]).as_py() or 0)
        until = max(until, latest)
        is_equality = pc.equal(table["content"], EQUALITY_DELETES)
        names = pc.coalesce(table["referenced_data_file"], table["path_bound"])
        names_file = pc.and_(pc.invert(is_equality), pc.is_valid(names))
        named += names.filter(names_file).to_pylist()
        wide = table.filter(pc.invert(names_file))
        if info.spec_id in global_specs and pc.any(is_equality).as_py():
            everywhere = max(everywhere, latest)
        if wide.num_rows:
            tuples = tuples_of(wide, entries.partition_columns)
            first, _ = distinct(tuples, wide.num_rows)
            partitions |= set(texts_of(info.spec_id, tuples, first))
            layouts.setdefault(info.spec_id, set()).add(layout_of(entries.partition_columns))
    return replace(
        rule,
        deletes_until=until,
        everywhere_until=everywhere,
        deleted_partitions=build_filter(sorted(partitions)) if partitions else b"",
        delete_layouts={spec_id: frozenset(found) for spec_id, found in layouts.items()},
        deleted_files=build_filter(named) if named else b"",
    )


def but_for_others(
    rule: RestRule, counted: Iterable[Read], positions: Sequence[int], is_selected: Sequence[bool]
) -> RestRule:
    """The rule for a plan of the selected partitions; `positions` are those of what is counted, row by row."""
    texts: list[str] = []
    start = 0
    for info, entries in counted:
        tuples = tuples_of(entries.table, entries.partition_columns)
        rows = range(len(entries.span))
        chosen = [row for row in rows if is_selected[positions[start + row]]]
        start += len(rows)
        if chosen:
            first, _ = distinct(tuples.take(pa.array(chosen)), len(chosen))
            texts += texts_of(info.spec_id, tuples.take(pa.array(chosen)), first)
    return replace(rule, selected=build_filter(texts))
