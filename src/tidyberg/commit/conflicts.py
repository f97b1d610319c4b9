"""Which groups may still be committed on a given parent, judged by its state and never by its history.

Looking at the files that are live at the parent cannot be fooled by snapshots that were expired in between
[I2, I3]. Groups that another writer touched are left out with the reason; the others go on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory
from tidyberg.model.plan import FileGroup


@dataclass(frozen=True)
class Replaceable:
    """A group whose inputs are all live at the parent, with where they are listed there."""

    group: FileGroup
    partition: int  # position in the parent inventory's partitions
    manifests: Mapping[str, tuple[str, ...]]  # manifest path -> input paths it lists


@dataclass(frozen=True)
class Validation:
    replaceable: tuple[Replaceable, ...]
    conflicts: Mapping[int, str]  # group id -> reason


def validate_groups(groups: Sequence[FileGroup], parent: Inventory, plan_sequence_number: int) -> Validation:
    located = _locate(groups, parent)
    replaceable: list[Replaceable] = []
    conflicts: dict[int, str] = {}
    for group in groups:
        rows = [located.get(file.path) for file in group.files]
        reason = _gone(group, rows) or _newly_deleted(group, rows, parent, plan_sequence_number)
        if reason is not None:
            conflicts[group.group_id] = reason
            continue
        live = [row for row in rows if row is not None]
        by_manifest: dict[str, list[str]] = {}
        for file, row in zip(group.files, live, strict=True):
            by_manifest.setdefault(parent.manifests[row.manifest].path, []).append(file.path)
        manifests = {path: tuple(paths) for path, paths in by_manifest.items()}
        replaceable.append(Replaceable(group, live[0].partition, manifests))
    return Validation(tuple(replaceable), conflicts)


@dataclass(frozen=True, slots=True)
class _Located:
    manifest: int
    partition: int
    spec_id: int
    sequence_number: int


def _locate(groups: Sequence[FileGroup], parent: Inventory) -> dict[str, _Located]:
    paths = pa.array([file.path for group in groups for file in group.files], pa.string())
    found = parent.data_files.filter(pc.is_in(parent.data_files["path"], value_set=paths))
    columns = [found[name].to_pylist() for name in ("path", "manifest", "partition", "spec_id", "sequence_number")]
    located = {path: _Located(*rest) for path, *rest in zip(*columns, strict=True)}
    assert len(located) == found.num_rows, "I5: no data file path is live twice"
    return located


def _gone(group: FileGroup, rows: Sequence[_Located | None]) -> str | None:
    missing = [file.path for file, row in zip(group.files, rows, strict=True) if row is None]
    if missing:
        return f"{len(missing)} of {len(group.files)} files are no longer in the table, first {missing[0]}"
    return None


def _newly_deleted(
    group: FileGroup, rows: Sequence[_Located | None], parent: Inventory, plan_sequence_number: int
) -> str | None:
    """A delete that applies to an input and that the outputs do not reflect and would not be subject to."""
    deletes = parent.delete_files
    if deletes.num_rows == 0:
        return None
    inputs = {file.path: row for file, row in zip(group.files, rows, strict=True) if row is not None}
    for delete in deletes.to_pylist():
        for path, row in inputs.items():
            if not _in_scope(delete["scope"], delete["referenced_data_file"], delete, path, row):
                continue
            if delete["kind"] == "equality":
                # I3: outputs carry the plan's sequence number, so an equality delete that came later still applies.
                if row.sequence_number < delete["sequence_number"] <= plan_sequence_number:
                    return f"equality deletes in {delete['path']} apply to it"
            elif row.sequence_number <= delete["sequence_number"]:
                return f"another writer deleted rows of its files meanwhile ({delete['path']})"
    return None


def _in_scope(scope: str, referenced: str | None, delete: Mapping[str, object], path: str, row: _Located) -> bool:
    if scope == "file":
        return referenced == path
    if scope == "global":
        return True
    return delete["spec_id"] == row.spec_id and delete["partition"] == row.partition
