"""Decides which data files of a huge table are only counted, because no plan under these options can take them."""

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
from tidyberg.model.manifest import CountedFileRule, Layout, ManifestInfo

EQUALITY_DELETES = 2  # the `content` of a manifest entry

Read = tuple[ManifestInfo, ManifestEntries]
Select = Callable[[Sequence[Partition]], Sequence[bool]]


@dataclass(frozen=True)
class CountingRule:
    """Says which files are only counted. `select` chooses the partitions that the plan is for; None means all."""

    rule: CountedFileRule
    select: Select | None = None


def unpartitioned(specs: Mapping[int, PartitionSpec]) -> list[int]:
    """Specs without partition fields. An equality delete in such a spec applies to the whole table."""
    return [
        spec_id
        for spec_id, spec in specs.items()
        if all(isinstance(field.transform, VoidTransform) for field in spec.fields)
    ]


def except_deleted(rule: CountedFileRule, deletes: Sequence[Read], global_specs: Collection[int]) -> CountedFileRule:
    """Excludes files that a delete file may apply to: one file, a partition, or all."""
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


def except_selected(
    rule: CountedFileRule, counted: Iterable[Read], positions: Sequence[int], is_selected: Sequence[bool]
) -> CountedFileRule:
    """Excludes files of selected partitions. `positions` has the partition of each counted row."""
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
