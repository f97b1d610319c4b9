"""Stages the replace snapshot of a manifest rewrite: new manifests, those of other writers, list and summary."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import TableRequirement, TableUpdate

from tidyberg._version import __version__
from tidyberg.commit.fence import no_fence
from tidyberg.commit.manifest_writing import ManifestContent, ManifestWriter
from tidyberg.commit.manifests import manifest_list, write_file
from tidyberg.commit.new_snapshot import CHUNK, JOB_ID, commit_requirements, new_snapshot, next_row_id, snapshot_updates
from tidyberg.commit.ownership import manifest_list_name, manifest_name
from tidyberg.commit.summary import roll_forward
from tidyberg.observe.manifest_list import ListedManifest, read_listed_manifests

ONLY_CHUNK = 0  # a rewrite makes one commit


@dataclass(frozen=True)
class ManifestRewrite:
    """Says which manifests one commit replaces, and with which entries."""

    format_version: int
    replaced: Mapping[str, int | None]  # the first row id of each manifest, by path
    manifests: tuple[ManifestContent | str, ...]  # new ones, and the paths of those that stay, in order
    writer: ManifestWriter

    @property
    def contents(self) -> list[ManifestContent]:
        return [one for one in self.manifests if isinstance(one, ManifestContent)]

    def is_stale(self, table: Table, listed: Mapping[str, ListedManifest]) -> bool:
        """Returns True if another writer removed a manifest, assigned row ids to it, or upgraded the table."""
        return table.metadata.format_version != self.format_version or any(
            path not in listed or listed[path].first_row_id != first_row_id
            for path, first_row_id in self.replaced.items()
        )


@dataclass(frozen=True)
class StagedManifests:
    """A commit attempt, written and ready to be sent."""

    manifest_list: str
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    created: tuple[str, ...]
    replaced: int
    kept: int
    entries: int
    bytes_written: int


@dataclass
class ManifestStager:
    """Writes the metadata of one commit. Attempts reuse the manifests of the same rewrite."""

    job_id: str
    branch: str
    snapshot_id: int
    about_to_write: Callable[[Sequence[str]], None]
    check: Callable[[], None]
    now_ms: Callable[[], int]
    _names: int = 0
    _rewrite: ManifestRewrite | None = None
    _written: dict[int, ListedManifest] = field(default_factory=dict)  # by position among the contents

    def stage(
        self, catalog: Catalog, table: Table, head: Snapshot, listed: Mapping[str, ListedManifest],
        rewrite: ManifestRewrite, attempt: int,
    ) -> StagedManifests:  # fmt: skip
        assert not rewrite.is_stale(table, listed), "I2: only manifests of the parent are replaced"
        new = self._write_manifests(table, rewrite)
        manifests = _in_order(rewrite, new, listed)
        _check_complete(new, rewrite, listed)
        metadata, version = table.metadata, table.metadata.format_version
        sequence_number, first_row_id = metadata.next_sequence_number(), next_row_id(table)
        content, added_rows = manifest_list(
            manifests,
            snapshot_id=self.snapshot_id,
            parent_id=head.snapshot_id,
            sequence_number=sequence_number,
            format_version=version,
            first_row_id=first_row_id,
        )
        list_path = self._location(table, manifest_list_name(self.job_id, self.snapshot_id, attempt))
        self.about_to_write([list_path])
        write_file(table.io, list_path, content)
        entries = sum(int(one.fields[505]) for one in new)
        kept = len(manifests) - len(new)
        snapshot = new_snapshot(
            table,
            head,
            self.snapshot_id,
            list_path,
            self._summary(head, len(new), kept, len(rewrite.replaced), entries),
            added_rows,
            self.now_ms(),
        )
        return StagedManifests(
            list_path,
            (
                *commit_requirements(catalog, metadata, self.branch, head.snapshot_id),
                no_fence(self.job_id, ONLY_CHUNK),
            ),
            snapshot_updates(metadata, self.branch, snapshot),
            tuple(one.path for one in new),
            len(rewrite.replaced),
            kept,
            entries,
            sum(one.length for one in new),
        )

    def _write_manifests(self, table: Table, rewrite: ManifestRewrite) -> list[ListedManifest]:
        if rewrite is not self._rewrite:
            self._rewrite, self._written = rewrite, {}
        contents = rewrite.contents
        missing = [number for number in range(len(contents)) if number not in self._written]
        # Never a name that was tried before: a write that storage reported as failed may still happen later.
        first, self._names = self._names, self._names + len(missing)
        paths = {
            self._location(table, manifest_name(self.job_id, ONLY_CHUNK, first + at)): number
            for at, number in enumerate(missing)
        }
        if paths:
            self.about_to_write(list(paths))
            chosen = [(path, contents[number]) for path, number in paths.items()]
            written, failure = rewrite.writer.write(table.io, chosen, self.snapshot_id, self.check)
            self._written |= {paths[path]: one for path, one in written.items()}
            if failure is not None:
                raise failure
        return [self._written[number] for number in range(len(contents))]

    def _location(self, table: Table, name: str) -> str:
        return table.location_provider().new_metadata_location(name)

    def _summary(self, head: Snapshot, created: int, kept: int, replaced: int, entries: int) -> Summary:
        """Builds the summary. Its names are those of Iceberg's Java library, and the totals stay as they were."""
        return Summary(
            operation=Operation.REPLACE,
            **roll_forward(head.summary.additional_properties if head.summary else {}, {}),
            **{
                "manifests-created": str(created),
                "manifests-kept": str(kept),
                "manifests-replaced": str(replaced),
                "entries-processed": str(entries),
                "engine-name": "tidyberg",
                "engine-version": __version__,
                JOB_ID: self.job_id,
                CHUNK: str(ONLY_CHUNK),
            },
        )


def listed_manifests(table: Table, head: Snapshot) -> dict[str, ListedManifest]:
    return {manifest.path: manifest for manifest in read_listed_manifests(table.io, head.manifest_list)}


def _in_order(
    rewrite: ManifestRewrite, new: Sequence[ListedManifest], listed: Mapping[str, ListedManifest]
) -> list[ListedManifest]:
    """Lists new manifests and those that stay in the order of clustering, then all others of the parent."""
    fresh = iter(new)
    ordered: dict[str, ListedManifest] = {}
    for one in rewrite.manifests:
        if isinstance(one, ManifestContent):
            manifest = next(fresh)
            ordered[manifest.path] = manifest
        elif one in listed:
            ordered[one] = listed[one]
    return list({**ordered, **{path: one for path, one in listed.items() if path not in rewrite.replaced}}.values())


def _check_complete(
    new: Sequence[ListedManifest], rewrite: ManifestRewrite, listed: Mapping[str, ListedManifest]
) -> None:
    """I1: the new manifests list as many files and rows as the replaced ones. Lists of version 1 may lack counts."""
    for added, existing in ((504, 505), (512, 513)):
        before = [listed[path].fields.get(number) for path in rewrite.replaced for number in (added, existing)]
        if any(count is None for count in before):
            continue
        after = sum(int(one.fields[existing]) for one in new)
        assert after == sum(int(count) for count in before if count is not None), "I1: no entry is lost or added"
