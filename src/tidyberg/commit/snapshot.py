"""Builds the replace snapshot of one commit attempt: manifests, list, summary, updates and requirements."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    TableRequirement,
    TableUpdate,
)

from tidyberg._version import __version__
from tidyberg.commit.conflicts import Replaceable, identities
from tidyberg.commit.dangling import dangling_deletes
from tidyberg.commit.entries import AddedDelete, AddedFile, Identity, Manifest
from tidyberg.commit.fence import no_fence
from tidyberg.commit.manifests import (
    Loss,
    NewManifest,
    added_delete_manifest,
    added_manifest,
    manifest_list,
    read_manifest,
    rewritten_manifest,
    write_file,
)
from tidyberg.commit.merging import merge_losses
from tidyberg.commit.new_partitions import empty_manifest, encode_partition, partition_summaries, partition_types
from tidyberg.commit.new_snapshot import (
    CHUNK,
    JOB_ID,
    commit_requirements,
    new_snapshot,
    next_row_id,
    snapshot_updates,
)
from tidyberg.commit.ownership import manifest_list_name, manifest_name
from tidyberg.commit.receipt import receipt
from tidyberg.commit.summary import replace_summary, roll_forward
from tidyberg.errors import GroupsConflict
from tidyberg.model.inventory import Inventory
from tidyberg.model.plan import BOUNDARIES, FULL_TARGET, SORT_KEY, DeleteFile
from tidyberg.model.sort_key import sort_key_text
from tidyberg.model.task import WrittenFile
from tidyberg.observe.manifest_list import ListedManifest, read_listed_manifests
from tidyberg.storage.table_files import damaged

PLAN_HASH = "tidyberg.plan-hash"
_NEEDED_AGAIN = "its deletes cannot leave, because other data files need them now"


@dataclass(frozen=True)
class Staged:
    """A commit attempt, written and ready to be sent."""

    manifest_list: str
    groups: tuple[int, ...]
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    removed_deletes: int = 0  # delete files that no live file needs any more


@dataclass
class Stager:
    """Writes the metadata of one commit. Attempts reuse manifests that are still valid."""

    job_id: str
    chunk: int
    plan_hash: str
    full_target: int | None  # the plan's
    boundaries: str | None  # those that the plan was asked for
    snapshot_id: int
    sequence_number: int  # the plan's, which the outputs have too [I3]
    outputs: Mapping[int, Sequence[WrittenFile]]
    deletes: Sequence[DeleteFile]  # of the plan; groups refer to them by position
    about_to_write: Callable[[Sequence[str]], None]
    now_ms: Callable[[], int]
    _names: int = 0
    _written: dict[object, ListedManifest] = field(default_factory=dict)
    _sources: dict[tuple[str, int | None], Manifest] = field(default_factory=dict)

    def stage(
        self, catalog: Catalog, table: Table, parent: Inventory, groups: Sequence[Replaceable], attempt: int
    ) -> Staged:
        assert groups, "a commit that replaces nothing is refused: nothing else would refuse it"
        metadata = table.metadata
        head = metadata.snapshot_by_id(parent.pinned.snapshot_id or -1)
        assert head is not None
        deletes = dangling_deletes(parent, groups, self._applied(groups))
        removed = _removed_entries(parent, groups, deletes)
        listed = {manifest.path: manifest for manifest in read_listed_manifests(table.io, head.manifest_list)}
        if listed.keys() != {manifest.path for manifest in parent.manifests}:
            # I1: a manifest that is missing in the copied list would be missing in the table.
            raise damaged(head.manifest_list, "it lists other manifests than a moment ago")
        rewritten = [member for member in groups if not member.group.keeps_data]
        merged = [member for member in groups if member.group.keeps_data and self.outputs[member.group.group_id]]
        if not removed and not merged:
            # Other writers have added files meanwhile that need the deletes.
            raise GroupsConflict(
                f"Nothing was committed to {parent.pinned.table}: {_NEEDED_AGAIN}.",
                hint="Plan again.",
                reasons={member.group.group_id: _NEEDED_AGAIN for member in groups},
            )
        manifests = self._added_manifests(table, parent, rewritten, listed)
        manifests += self._added_delete_manifests(table, parent, merged, listed)
        manifests += self._rewritten_manifests(table, removed, listed)
        for path, manifest in listed.items():
            if path not in removed and manifest.may_have_live_files:
                manifests.append(manifest)

        version = metadata.format_version
        sequence_number = metadata.next_sequence_number()
        first_row_id = next_row_id(table)
        content, added_rows = manifest_list(
            manifests,
            snapshot_id=self.snapshot_id,
            parent_id=head.snapshot_id,
            sequence_number=sequence_number,
            format_version=version,
            first_row_id=first_row_id,
        )
        list_path = self._location(table, manifest_list_name(self.job_id, self.snapshot_id, attempt))
        self._write(table, list_path, content)
        snapshot = new_snapshot(
            table,
            head,
            self.snapshot_id,
            list_path,
            self._summary(head, groups, deletes),
            added_rows,
            self.now_ms(),
        )
        return Staged(
            list_path,
            tuple(replaceable.group.group_id for replaceable in groups),
            (
                *commit_requirements(catalog, metadata, parent.pinned.branch, head.snapshot_id),
                no_fence(self.job_id, self.chunk),
            ),
            snapshot_updates(metadata, parent.pinned.branch, snapshot),
            deletes.num_rows,
        )

    def _applied(self, groups: Sequence[Replaceable]) -> set[Identity]:
        applied = {position for member in groups for position in member.group.deletes}
        return {self.deletes[position].identity for position in applied}

    def _added_manifests(
        self, table: Table, parent: Inventory, groups: Sequence[Replaceable], listed: Mapping[str, ListedManifest]
    ) -> list[ListedManifest]:
        """One manifest per spec, or two if a promoted source column changed how partition values are encoded."""
        members: dict[tuple[int, str], list[tuple[Replaceable, Manifest]]] = {}
        for group in groups:
            spec_id = group.group.output_spec_id
            if spec_id is None:
                spec_id = group.group.spec_id
                source = self._source(table, listed[next(iter(group.manifests))])
            else:
                source = empty_manifest(table.metadata, spec_id)
            members.setdefault((spec_id, json.dumps(source.partition_schema)), []).append((group, source))
        manifests = [self._added(table, parent, together) for _, together in sorted(members.items())]
        return [manifest for manifest in manifests if manifest is not None]

    def _added(
        self, table: Table, parent: Inventory, members: Sequence[tuple[Replaceable, Manifest]]
    ) -> ListedManifest | None:
        outputs = [output for member, source in members for output in self._outputs_of(table, member, source)]
        if not outputs:
            return None
        version = table.metadata.format_version
        key = ("added", version, tuple(member.group.group_id for member, _ in members))
        if key not in self._written:
            path = self._next_manifest_path(table)
            template = members[0][1]
            partitions = [values for member, _ in members for values in self._partitions(parent, member)]
            content, manifest = added_manifest(
                template, outputs, self._new_manifest(path, version, template, partitions)
            )
            self._write(table, path, content)
            self._written[key] = manifest
        return self._written[key]

    def _added_delete_manifests(
        self, table: Table, parent: Inventory, groups: Sequence[Replaceable], listed: Mapping[str, ListedManifest]
    ) -> list[ListedManifest]:
        """One manifest per spec for merged deletes, which have the partitions of their data files."""
        members: dict[tuple[int, str], list[tuple[Replaceable, Manifest]]] = {}
        for group in groups:
            source = self._source(table, listed[next(iter(group.manifests))])
            key = (group.group.spec_id, json.dumps(source.partition_schema))
            members.setdefault(key, []).append((group, source))
        return [self._added_deletes(table, parent, together) for _, together in sorted(members.items())]

    def _added_deletes(
        self, table: Table, parent: Inventory, members: Sequence[tuple[Replaceable, Manifest]]
    ) -> ListedManifest:
        version = table.metadata.format_version
        key = ("added deletes", version, tuple(member.group.group_id for member, _ in members))
        if key not in self._written:
            path, template = self._next_manifest_path(table), members[0][1]
            partitions = [parent.partitions[member.partition].values for member, _ in members]
            added = [
                AddedDelete(file, delete, _partition_of(source, member))
                for member, source in members
                for file in self.outputs[member.group.group_id]
                for delete in file.deletes
            ]
            content, manifest = added_delete_manifest(
                template, added, self._new_manifest(path, version, template, partitions)
            )
            self._write(table, path, content)
            self._written[key] = manifest
        return self._written[key]

    def _new_manifest(
        self, path: str, format_version: int, template: Manifest, partitions: Sequence[tuple[Any, ...]]
    ) -> NewManifest:
        summaries = partition_summaries(partition_types(template), partitions)
        return NewManifest(path, self.snapshot_id, self.sequence_number, format_version, summaries)

    def _outputs_of(self, table: Table, member: Replaceable, source: Manifest) -> list[AddedFile]:
        files = self.outputs[member.group.group_id]
        spec_id = member.group.output_spec_id
        if spec_id is None:
            partition = _partition_of(source, member)
            return [AddedFile(file, partition) for file in files]
        spec = table.specs()[spec_id]
        return [AddedFile(file, encode_partition(source, spec, file.partition or ())) for file in files]

    def _partitions(self, parent: Inventory, member: Replaceable) -> list[tuple[Any, ...]]:
        if member.group.output_spec_id is None:
            return [parent.partitions[member.partition].values]
        return [file.partition or () for file in self.outputs[member.group.group_id]]

    def _rewritten_manifests(
        self, table: Table, removed: Mapping[str, set[Identity]], listed: Mapping[str, ListedManifest]
    ) -> list[ListedManifest]:
        losses = [
            Loss(self._source(table, manifest), frozenset(removed[path]))
            for path, manifest in listed.items()
            if path in removed
        ]
        bundles = merge_losses(losses, table.metadata.format_version, table.properties)
        return [self._rewritten(table, bundle) for bundle in bundles]

    def _rewritten(self, table: Table, losses: Sequence[Loss]) -> ListedManifest:
        version = table.metadata.format_version
        sources = [(loss.source.listed.path, loss.source.listed.first_row_id, loss.removed) for loss in losses]
        key = ("rewritten", version, *sources)
        if key not in self._written:
            path = self._next_manifest_path(table)
            content, manifest = rewritten_manifest(
                losses, snapshot_id=self.snapshot_id, format_version=version, path=path
            )
            self._write(table, path, content)
            self._written[key] = manifest
        return self._written[key]

    def _source(self, table: Table, listed: ListedManifest) -> Manifest:
        # Another commit may have assigned first row ids to a manifest from before an upgrade.
        key = (listed.path, listed.first_row_id)
        if key not in self._sources:
            self._sources[key] = read_manifest(table.io, listed)
        return self._sources[key]

    def _write(self, table: Table, path: str, content: bytes) -> None:
        self.about_to_write([path])
        write_file(table.io, path, content)

    def _next_manifest_path(self, table: Table) -> str:
        # Never a name that was tried before: a write that storage reported as failed may still happen later.
        self._names += 1
        return self._location(table, manifest_name(self.job_id, self.chunk, self._names - 1))

    def _location(self, table: Table, name: str) -> str:
        return table.location_provider().new_metadata_location(name)

    def _changed_partitions(self, groups: Sequence[Replaceable]) -> int:
        changed: set[object] = {(member.group.spec_id, member.partition) for member in groups}
        for member in groups:
            if member.group.output_spec_id is not None:
                files = self.outputs[member.group.group_id]
                changed |= {(member.group.output_spec_id, repr(file.partition)) for file in files}
        return len(changed)

    def _summary(self, head: Snapshot, groups: Sequence[Replaceable], deletes: pa.Table) -> Summary:
        rewritten = [member for member in groups if not member.group.keeps_data]
        files = [file for member in rewritten for file in member.group.files]
        outputs = [file for member in rewritten for file in self.outputs[member.group.group_id]]
        merged = [file for member in groups if member.group.keeps_data for file in self.outputs[member.group.group_id]]
        changes = replace_summary(files, outputs, deletes, merged, partitions=self._changed_partitions(groups))
        return Summary(
            operation=self._operation(groups),
            **roll_forward(head.summary.additional_properties if head.summary else {}, changes),
            **{
                "engine-name": "tidyberg",
                "engine-version": __version__,
                JOB_ID: self.job_id,
                CHUNK: str(self.chunk),
                PLAN_HASH: self.plan_hash,
                **({} if self.full_target is None else {FULL_TARGET: str(self.full_target)}),
                **_sort_property(rewritten),
                **({} if self.boundaries is None else {BOUNDARIES: self.boundaries}),
                **receipt(outputs),
            },
        )

    def _operation(self, groups: Sequence[Replaceable]) -> Operation:
        """Returns `replace`, or `overwrite` if equality deletes became deletion vectors.

        A compaction of Iceberg's Java library that started before such a delete relies on the delete: its outputs have
        an older sequence number. It looks for new vectors of its inputs, but not in replace snapshots. It would then
        commit, and the deleted rows would be back. So would those of Trino and others with the same library.
        """
        converts = any(
            self.deletes[position].kind == "equality"
            for member in groups
            if member.group.keeps_data and member.group.files
            for position in member.group.deletes
        )
        return Operation.OVERWRITE if converts else Operation.REPLACE


def _removed_entries(parent: Inventory, groups: Sequence[Replaceable], deletes: pa.Table) -> dict[str, set[Identity]]:
    """Maps manifest paths to removed entries: the groups' inputs, and delete files that no data file needs."""
    removed: dict[str, set[Identity]] = {}
    for member in groups:
        for manifest, paths in () if member.group.keeps_data else member.manifests.items():
            removed.setdefault(manifest, set()).update((path, None, None) for path in paths)
    for identity, number in zip(identities(deletes), deletes["manifest"].to_pylist(), strict=True):
        removed.setdefault(parent.manifests[number].path, set()).add(identity)
    return removed


def _partition_of(source: Manifest, member: Replaceable) -> bytes:
    """The partition of a group's outputs: the same bytes as in the entries of its inputs."""
    wanted = set(member.manifests[source.listed.path])
    partitions = {entry.partition for entry in source.entries if entry.path in wanted}
    assert len(partitions) == 1, "I9: the files of a group share one partition"
    return partitions.pop()


def _sort_property(groups: Sequence[Replaceable]) -> dict[str, str]:
    """Returns the order of the groups whose rows were sorted. All of them have the same."""
    keys = {sort_key_text(member.group.sort_key) for member in groups if member.group.sort_key is not None}
    return {SORT_KEY: min(keys)} if keys else {}
