"""Decides which groups may still be committed on a given parent.

The state of the parent decides, never its history, because snapshots in between may have expired [I2, I3]. Groups that
another writer touched are left out, with the reason. The others are committed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.commit.entries import Identity
from tidyberg.model.inventory import Inventory
from tidyberg.model.plan import DeleteFile, FileGroup, Plan
from tidyberg.model.table import Pinned
from tidyberg.model.task import WrittenFile
from tidyberg.model.words import are, plural
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.planning.publishing import waiting_to_be_published


@dataclass(frozen=True)
class Replaceable:
    """A group whose inputs are all live at the parent, and the manifests that list them there."""

    group: FileGroup
    partition: int  # position in the parent inventory's partitions
    manifests: Mapping[str, tuple[str, ...]]  # manifest path -> input paths it lists
    merges_keys: bool = False  # of a group that keeps its data files: whether equality deletes were merged too


@dataclass(frozen=True)
class Validation:
    replaceable: tuple[Replaceable, ...]
    conflicts: Mapping[int, str]  # group id -> reason


def refusal_to_commit(plan: Plan, parent: Pinned) -> str | None:
    """Returns the reason why no group of the plan may be committed on that parent, or None."""
    descends = _descends(plan, parent)
    if descends is False or (descends is None and parent.sequence_number < plan.sequence_number):
        return f"branch {plan.branch} was rolled back behind the plan's snapshot"
    if not plan.options.get("ignore_wap_branches") and (waiting := waiting_to_be_published(parent)):
        return waiting.reason
    return None


def _descends(plan: Plan, parent: Pinned) -> bool | None:
    """Returns True if the branch still builds on the plan's snapshot, and None if a snapshot in between has expired."""
    current = parent.snapshot_id
    while current is not None:
        if current == plan.snapshot_id:
            return True
        if current not in parent.snapshots:
            return None
        current = parent.snapshots[current].parent_id
    # Some tools cut the history at a snapshot that they expire, so that it seems to begin there.
    return False if plan.snapshot_id in parent.snapshots else None


def validate_groups(
    groups: Sequence[FileGroup],
    parent: Inventory,
    plan: Plan,
    outputs: Mapping[int, Sequence[WrittenFile]] = MappingProxyType({}),
) -> Validation:
    """Splits groups into those that may be committed and conflicts. `outputs` are their written files, by group id."""
    located = _locate(groups, parent)
    unseen = _touched_by_unseen(parent, plan.sequence_number, plan.deletes)
    # Merging in v2 leaves equality deletes as they are, so a plan of it does not list them.
    unseen_positions = unseen
    if plan.format_version < 3 and any(group.keeps_data for group in groups):
        unseen_positions = _touched_by_unseen(parent, plan.sequence_number, plan.deletes, with_keys=False)
    undone = _undone_deletes(plan, parent)
    deletes = _NewDeletes(parent, plan.sequence_number)
    equality = _NewEqualityDeletes(parent, plan.sequence_number)
    live_deletes = set(identities(parent.delete_files))
    replaceable: list[Replaceable] = []
    conflicts: dict[int, str] = {}
    for group in groups:
        rows = [located.get(file.path) for file in group.files]
        reason = (
            _gone(group, rows)
            or _newly_deleted(group, rows, deletes)
            or _of_another_history(group, unseen_positions if group.keeps_data else unseen)
            or _undeleted(group, undone)
            or _renumbered(group, rows)
            or _merged_elsewhere(group, plan, parent, live_deletes)
            or _between_specs(group, rows, outputs.get(group.group_id, ()), equality)
        )
        if reason is not None:
            conflicts[group.group_id] = reason
            continue
        live = [row for row in rows if row is not None]
        by_manifest: dict[str, list[str]] = {}
        for file, row in zip(group.files, live, strict=True):
            by_manifest.setdefault(parent.manifests[row.manifest].path, []).append(file.path)
        manifests = {path: tuple(paths) for path, paths in by_manifest.items()}
        partition = live[0].partition if live else _NO_PARTITION
        replaceable.append(Replaceable(group, partition, manifests, merges_keys=plan.format_version > 2))
    return Validation(tuple(replaceable), conflicts)


_NO_PARTITION = -1  # of a group without files, which adds nothing


@dataclass(frozen=True, slots=True)
class _Located:
    manifest: int
    partition: int
    spec_id: int
    sequence_number: int
    first_row_id: int | None


def _locate(groups: Sequence[FileGroup], parent: Inventory) -> dict[str, _Located]:
    paths = pa.array([file.path for group in groups for file in group.files], pa.string())
    found = parent.data_files.filter(pc.is_in(parent.data_files["path"], value_set=paths))
    names = ("path", "manifest", "partition", "spec_id", "sequence_number", "first_row_id")
    columns = [found[name].to_pylist() for name in names]
    located = {path: _Located(*rest) for path, *rest in zip(*columns, strict=True)}
    assert len(located) == found.num_rows, "I5: no data file path is live twice"
    return located


def _gone(group: FileGroup, rows: Sequence[_Located | None]) -> str | None:
    missing = [file.path for file, row in zip(group.files, rows, strict=True) if row is None]
    if missing:
        found = f"{len(missing):,} of {plural(len(group.files), 'file')} {are(len(missing))} no longer in the table"
        return f"{found}, first {missing[0]}"
    return None


class _NewDeletes:
    """Position deletes and DVs that are newer than the plan's snapshot, by scope, with the highest sequence number.

    The data sequence number decides, because a delete file that was only rewritten keeps its old one. Newer equality
    deletes still apply to the outputs, which have the plan's sequence number [I3]. Older ones were already applied.
    """

    def __init__(self, parent: Inventory, plan_sequence_number: int) -> None:
        self._latest: dict[object, tuple[int, str]] = {}
        names = ("path", "kind", "scope", "spec_id", "partition", "sequence_number", "referenced_data_file")
        columns = [parent.delete_files[name].to_pylist() for name in names]
        for path, kind, scope, spec_id, partition, sequence_number, referenced in zip(*columns, strict=True):
            if kind == "equality" or sequence_number <= plan_sequence_number:
                continue
            key = referenced if scope == "file" else (spec_id, partition)
            known = self._latest.get(key)
            if known is None or known[0] < sequence_number:
                self._latest[key] = (sequence_number, path)

    def touching(self, path: str, row: _Located) -> str | None:
        """Returns the path of a new delete file that may apply to this input, judged by its scope, or None."""
        for key in (path, (row.spec_id, row.partition)):
            if (found := self._latest.get(key)) and row.sequence_number <= found[0]:
                return found[1]
        return None


def _newly_deleted(group: FileGroup, rows: Sequence[_Located | None], deletes: _NewDeletes) -> str | None:
    for file, row in zip(group.files, rows, strict=True):
        if row is not None and (delete := deletes.touching(file.path, row)):
            return f"rows of {file.path} were deleted meanwhile by {delete}"
    return None


class _NewEqualityDeletes:
    """Equality deletes that are newer than the plan's snapshot. Such a delete applies to one spec and partition only.

    If the outputs stay in the partition of their inputs, the delete is no conflict [I3]. If they move to another spec,
    they have the plan's data sequence number s, and there are four cases:
    - A delete up to s that applies to an input was applied when the input was read. It applies to no output, because
      an equality delete applies only to older data, and the outputs have s. No conflict.
    - A delete above s in the spec and partition of an input applies to the input but not to the outputs. Deleted rows
      would come back. A conflict.
    - A delete above s in the spec and partition of an output applies to the output but not to the input. Rows would
      be lost. A conflict.
    - A delete above s in an unpartitioned spec is global. It applies to the input and to the outputs alike. No
      conflict, even if the old or the new spec is itself unpartitioned.
    Position deletes and DVs name input files, so they always conflict.
    """

    def __init__(self, parent: Inventory, plan_sequence_number: int) -> None:
        names = ("path", "kind", "scope", "partition", "sequence_number")
        columns = [parent.delete_files[name].to_pylist() for name in names]
        self._by_partition: dict[tuple[int, str], str] = {}
        for path, kind, scope, partition, sequence_number in zip(*columns, strict=True):
            if kind == "equality" and scope != "global" and sequence_number > plan_sequence_number:
                found = parent.partitions[partition]
                # Compares text, as the inventory does, because then NaN equals itself.
                self._by_partition[found.spec_id, repr(found.values)] = path
        self._partitions = parent.partitions

    def of_input(self, partition: int) -> str | None:
        found = self._partitions[partition]
        return self._by_partition.get((found.spec_id, repr(found.values)))

    def of_output(self, spec_id: int, values: tuple[Any, ...]) -> str | None:
        return self._by_partition.get((spec_id, repr(values)))


def _between_specs(
    group: FileGroup, rows: Sequence[_Located | None], outputs: Sequence[WrittenFile], deletes: _NewEqualityDeletes
) -> str | None:
    if group.output_spec_id is None:
        return None
    for file, row in zip(group.files, rows, strict=True):
        if row is not None and (delete := deletes.of_input(row.partition)):
            return f"{delete} came meanwhile, and is for {file.path} in its old partition spec only"
    for output in outputs:
        if delete := deletes.of_output(group.output_spec_id, output.partition or ()):
            return f"the rows for {output.path} would be subject to {delete}, which came meanwhile"
    return None


def _touched_by_unseen(
    parent: Inventory, plan_sequence_number: int, plan_deletes: Sequence[DeleteFile], *, with_keys: bool = True
) -> set[str]:
    """Finds inputs with a delete that is as old as the plan but unknown to it, because the branch has another history.

    A delete file that was only rewritten has an old data sequence number but a new file sequence number.
    """
    if parent.delete_files.num_rows == 0:
        return set()
    files = parent.data_files.sort_by([("partition", "ascending"), ("sequence_number", "ascending")])
    index = DeleteIndex(files, parent.delete_files)
    old = index.rows["file_sequence_number"].to_numpy() <= plan_sequence_number
    known = {delete.identity for delete in plan_deletes}
    unknown = np.array([identity not in known for identity in identities(index.rows)], dtype=np.bool_)
    if not with_keys:
        old &= pc.not_equal(index.rows["kind"].cast(pa.string()), "equality").to_numpy()
    return set(files["path"].filter(pa.array(index.touched(old & unknown))).to_pylist())


def _of_another_history(group: FileGroup, touched: set[str]) -> str | None:
    hit = next((file.path for file in group.files if file.path in touched), None)
    return f"deletes that the plan did not see apply to {hit}" if hit else None


def _undone_deletes(plan: Plan, parent: Inventory) -> dict[int, str]:
    """Returns deletes of the plan that are gone and may have been undone: position in the plan's deletes -> path.

    The outputs do not contain the rows that they deleted. If the history is complete, such a delete file was replaced
    or has no file left to apply to. If the history has gaps, it may have been rolled back, and its rows are live again.
    """
    if _descends(plan, parent.pinned):
        return {}
    live = set(identities(parent.delete_files))
    return {at: delete.path for at, delete in enumerate(plan.deletes) if delete.identity not in live}


def _undeleted(group: FileGroup, undone: Mapping[int, str]) -> str | None:
    hit = next((undone[position] for position in group.deletes if position in undone), None)
    return f"{hit}, which the plan saw, is gone, and so may be the branch's history" if hit else None


def _renumbered(group: FileGroup, rows: Sequence[_Located | None]) -> str | None:
    """I8: outputs have the row ids of the plan, but the first commit after an upgrade to v3 assigns ids to all rows.

    I3: a file that was removed and added again has a higher sequence number. The deletes that the plan saw no longer
    apply to its rows, and Java refuses to read a table with a deletion vector that is older than its file.
    """
    for file, row in zip(group.files, rows, strict=True):
        if row is not None and row.sequence_number != file.sequence_number:
            return f"{file.path} was removed and added again meanwhile"
        if row is not None and not group.keeps_data and row.first_row_id != file.first_row_id:
            return f"the rows of {file.path} got {'other ' if file.first_row_id is not None else ''}ids meanwhile"
    return None


def _merged_elsewhere(group: FileGroup, plan: Plan, parent: Inventory, live: Collection[Identity]) -> str | None:
    """Returns why merged deletes do not fit the parent: its format differs, or none of the old deletes is there."""
    if not group.keeps_data:
        return None
    version = parent.pinned.format_version
    if version != plan.format_version:  # v3 allows no new position delete files, and v2 no vectors
        return f"the table was upgraded to format version {version}"
    if not any(plan.deletes[position].identity in live for position in group.deletes):
        return "its delete files are no longer in the table"
    return None


def identities(deletes: pa.Table) -> list[Identity]:
    names = ("path", "content_offset", "content_size")
    return list(zip(*(deletes[name].to_pylist() for name in names), strict=True))
