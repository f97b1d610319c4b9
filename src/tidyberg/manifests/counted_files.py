"""Replaces entries of files that a plan cannot select by counts per partition and snapshot."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.manifests.entries import ManifestEntries, PartitionColumn, joined
from tidyberg.manifests.inherit import inherit
from tidyberg.manifests.partition_tuples import Ints, distinct, layout_of, texts_of, tuples_of
from tidyberg.manifests.text_filter import may_contain
from tidyberg.model.manifest import CountedFileRule, ManifestInfo

Mask = npt.NDArray[np.bool_]

UNKNOWN_SNAPSHOT = -1
_SUMS = {
    "files": "sum",
    "small_files": "sum",
    "below_threshold": "sum",
    "bytes": "sum",
    "records": "sum",
    "oldest": "min",
}


def replace_by_counts(
    infos: Sequence[ManifestInfo], manifests: Sequence[ManifestEntries], rule: CountedFileRule
) -> list[ManifestEntries]:
    """Returns the manifests without the entries that `rule` says are only counted.

    The counts of manifests with the same partition layout are in the first of them. The entries that stay have
    inherited their values, because row ids cannot be computed once entries are missing. Raises ManifestError.
    """
    left = list(manifests)
    alike: dict[tuple[int, tuple[PartitionColumn, ...]], list[int]] = {}
    for number, (info, entries) in enumerate(zip(infos, manifests, strict=True)):
        if not info.holds_deletes:
            alike.setdefault((info.spec_id, entries.partition_columns), []).append(number)
    for (spec_id, columns), numbers in alike.items():
        entries_alike = [manifests[number] for number in numbers]
        lengths = [len(entries.span) for entries in entries_alike]
        manifest = np.repeat(np.arange(len(numbers), dtype=np.int32), lengths)
        together = joined(entries_alike, entries_alike[0].source.column_names).combine_chunks()
        together = inherit(together, [infos[number] for number in numbers], manifest)
        is_counted, counted = _only_counted(together, spec_id, columns, rule)
        kept = together.filter(pa.array(~is_counted))
        ends = np.cumsum(np.bincount(manifest[~is_counted], minlength=len(numbers))).tolist()
        for number, start, end in zip(numbers, [0, *ends], ends, strict=False):
            left[number] = ManifestEntries(columns, kept, rows=range(start, end))
        left[numbers[0]] = replace(left[numbers[0]], counted_files=counted)
    return left


def add_counts(counted: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Adds up the counts of equal keys."""
    summed = counted.group_by(list(keys), use_threads=False).aggregate(list(_SUMS.items()))
    return summed.select([*keys, *(f"{name}_{how}" for name, how in _SUMS.items())]).rename_columns([*keys, *_SUMS])


def _only_counted(
    entries: pa.Table, spec_id: int, columns: tuple[PartitionColumn, ...], rule: CountedFileRule
) -> tuple[Mask, pa.Table]:
    tuples = tuples_of(entries, columns)
    first, partition = distinct(tuples, entries.num_rows)
    texts = texts_of(spec_id, tuples, first)
    sizes, records = (pc.fill_null(entries[name], -1).to_numpy() for name in ("size", "records"))
    is_counted = sizes >= rule.at_least
    if rule.at_most is not None:
        is_counted &= sizes <= rule.at_most
    if rule.spec_id is not None:
        is_counted &= spec_id == rule.spec_id
    is_counted &= ~_may_have_deletes(entries, spec_id, columns, partition, texts, is_counted, rule)
    if rule.selected is not None:
        is_counted |= ~may_contain(rule.selected, texts)[partition]
    is_counted &= (entries["content"].to_numpy() == 0) & (sizes >= 0) & (records >= 0)
    return is_counted, _counted(entries, tuples, first, partition, is_counted, rule)


def _may_have_deletes(
    entries: pa.Table,
    spec_id: int,
    columns: tuple[PartitionColumn, ...],
    partition: Ints,
    texts: Sequence[str],
    among: Mask,
    rule: CountedFileRule,
) -> Mask:
    """Returns the entries that a delete file may apply to. Paths are looked up only for entries in `among`."""
    sequence = entries["sequence_number"].to_numpy()
    layout = layout_of(columns)
    if rule.delete_layouts.get(spec_id, {layout}) == {layout}:
        has_deletes = may_contain(rule.deleted_partitions, texts)[partition]
    else:  # partition values of different layouts cannot be compared
        has_deletes = np.ones(len(sequence), np.bool_)
    has_deletes &= sequence <= rule.deletes_until
    has_deletes |= sequence < rule.everywhere_until
    if rule.deleted_files:
        looked_up = np.flatnonzero(among & ~has_deletes & (sequence <= rule.deletes_until))
        has_deletes[looked_up] = may_contain(rule.deleted_files, entries["path"].take(pa.array(looked_up)).to_pylist())
    return has_deletes


def _counted(
    entries: pa.Table, tuples: pa.Table, first: Ints, partition: Ints, is_counted: Mask, rule: CountedFileRule
) -> pa.Table:
    rows = np.flatnonzero(is_counted)
    sizes = entries["size"].to_numpy()[rows]
    snapshot = entries["snapshot_id"].to_numpy()[rows]
    known = np.isin(snapshot, np.array(rule.snapshots, np.int64))
    each = pa.table(
        {
            "partition": partition[rows],
            "snapshot_id": np.where(known, snapshot, UNKNOWN_SNAPSHOT),
            "files": np.ones(len(rows), np.int64),
            "small_files": (sizes < rule.small).astype(np.int64),
            "below_threshold": (sizes < rule.threshold).astype(np.int64),
            "bytes": sizes,
            "records": entries["records"].to_numpy()[rows],
            "oldest": entries["sequence_number"].to_numpy()[rows],
        }
    )
    counted = add_counts(each, ("partition", "snapshot_id"))
    at = pa.array(first[counted["partition"].to_numpy()])
    counted = counted.drop_columns(["partition"])
    for name in tuples.column_names:
        counted = counted.append_column(name, tuples[name].take(at))
    return counted.combine_chunks()
