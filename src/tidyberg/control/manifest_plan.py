"""Plans a manifest rewrite: reads every manifest of a branch, and decides which entries go where. Changes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from pyiceberg.table import Table

from tidyberg.commit.manifest_kinds import ManifestKind, ManifestKinds, is_current, kinds_of
from tidyberg.commit.manifest_snapshot import ManifestRewrite
from tidyberg.commit.manifest_writing import ManifestContent, ManifestWriter, encoded_sizes
from tidyberg.errors import BadInput, Unsupported
from tidyberg.manifests.encoded_entries import EncodedEntries, Ints, read_encoded
from tidyberg.manifests.entries import ManifestError
from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.manifest_rewrite import ManifestOptions, ManifestPlan
from tidyberg.model.options import Prices
from tidyberg.model.table import TableRef
from tidyberg.observe.manifest_list import DATA, ListedManifest, read_listed_manifests
from tidyberg.observe.pin import pin
from tidyberg.observe.reading import fetch_manifests
from tidyberg.planning.manifest_layout import EntryColumns, EntryGroup, Layout, SourceManifest
from tidyberg.planning.manifest_rewrite import ManifestFacts, plan_manifests, target_bytes
from tidyberg.planning.publishing import waiting_to_be_published
from tidyberg.storage.table_files import damaged, read_bytes


@dataclass(frozen=True)
class PreparedManifests:
    """A plan, with the entries that it needs."""

    plan: ManifestPlan
    rewrite: ManifestRewrite | None  # None: the branch has no manifest that may be rewritten


@dataclass(frozen=True)
class ManifestPlanner:
    ref: TableRef
    options: ManifestOptions
    prices: Prices
    check: Callable[[], None] = lambda: None  # called before each manifest; it stops the plan if it raises

    def prepare(self, table: Table) -> PreparedManifests:
        pinned = pin(table, self.ref, self.options.branch)
        self._check_options(table)
        target = target_bytes(table.metadata.properties, self.options.target_bytes)
        listed = self._listed(table, pinned.snapshot_id)
        taken = [one for one in listed if self.options.spec_id in (None, one.spec_id)]
        entries = self._read(table, [info_of(one) for one in taken])
        version = table.metadata.format_version
        kinds = kinds_of(entries, version)
        arranged = _Arranged.of(entries, kinds, self._first_fields(table))
        writer = ManifestWriter(entries, kinds.kinds)
        facts = ManifestFacts(
            table=self.ref,
            branch=self.options.branch,
            snapshot_id=pinned.snapshot_id,
            entries=arranged.columns,
            manifests=arranged.manifests(version),
            groups=arranged.groups(writer),
            layouts=arranged.layouts,
            left=len(listed) - len(arranged.numbers),
            waiting=self.refusal(table),
        )
        planned = plan_manifests(facts, table.metadata.properties, self.prices, target, force=self.options.force)
        if not arranged.numbers:
            return PreparedManifests(planned.plan, None)
        stays = {one.keeps for one in planned.manifests}
        replaced = [number for at, number in enumerate(arranged.numbers) if at not in stays]
        manifests = tuple(
            ManifestContent(one.group, arranged.rows[planned.order[one.start : one.stop]])
            if one.keeps is None
            else entries.manifests[arranged.numbers[one.keeps]].path
            for one in planned.manifests
        )
        before = {entries.manifests[number].path: taken[number].first_row_id for number in replaced}
        return PreparedManifests(planned.plan, ManifestRewrite(version, before, manifests, writer))

    def refusal(self, table: Table) -> str | None:
        """Returns a reason to commit nothing now: a branch that builds on this one could not be published."""
        if self.options.ignore_wap_branches:
            return None
        waiting = waiting_to_be_published(pin(table, self.ref, self.options.branch))
        return waiting.reason.replace("after a compaction", "after a rewrite") if waiting is not None else None

    def _check_options(self, table: Table) -> None:
        specs, options = table.specs(), self.options
        if options.spec_id is not None and options.spec_id not in specs:
            raise BadInput(
                f"{self.ref} has no partition spec {options.spec_id}.",
                hint=f"Its specs are: {', '.join(map(str, sorted(specs)))}.",
            )
        chosen = specs.values() if options.spec_id is None else [specs[options.spec_id]]
        names = {field.name for spec in chosen for field in spec.fields}
        if unknown := [name for name in options.sort_by if name not in names]:
            raise BadInput(
                f"{self.ref} has no partition field {', '.join(map(repr, unknown))}.",
                hint=f"Its partition fields are: {', '.join(sorted(names)) or 'none, it is not partitioned'}.",
            )

    def _first_fields(self, table: Table) -> dict[int, list[int]]:
        """For each spec, the ids of the partition fields to cluster by first."""
        found = {}
        for spec_id, spec in table.specs().items():
            ids = {field.name: field.field_id for field in spec.fields}
            found[spec_id] = [ids[name] for name in self.options.sort_by if name in ids]
        return found

    def _listed(self, table: Table, snapshot_id: int | None) -> list[ListedManifest]:
        snapshot = table.metadata.snapshot_by_id(snapshot_id) if snapshot_id is not None else None
        listed = read_listed_manifests(table.io, snapshot.manifest_list) if snapshot is not None else []
        for one in listed:
            if one.fields.get(519) is not None:
                raise Unsupported(f"{one.path} is encrypted: encrypted tables are not supported.")
        return listed

    def _read(self, table: Table, manifests: Sequence[ManifestInfo]) -> EncodedEntries:
        def read(path: str) -> bytes:
            self.check()
            return read_bytes(table.io, path)

        def whole(info: ManifestInfo, raw: bytes) -> bytes:
            if len(raw) < info.length:
                raise damaged(info.path, f"it has {len(raw)} bytes, the manifest list says {info.length}")
            return raw

        contents = fetch_manifests(read, manifests)
        try:
            return read_encoded((info, whole(info, raw)) for info, raw in zip(manifests, contents, strict=True))
        except ManifestError as error:
            raise damaged(error.name, f"as a manifest, {error}") from error


@dataclass(frozen=True)
class _Arranged:
    """The entries that may be rewritten, with numbers for their partitions in the order of clustering."""

    entries: EncodedEntries
    kinds: ManifestKinds
    numbers: list[int]  # of the manifests that may be rewritten
    rows: Ints  # of the entries in them
    columns: EntryColumns
    layouts: list[Layout]
    layout_of_kind: list[int]

    @classmethod
    def of(cls, entries: EncodedEntries, kinds: ManifestKinds, first_fields: Mapping[int, list[int]]) -> "_Arranged":
        numbers = [number for number, kind in enumerate(kinds.of_manifest) if kind is not None]
        kind_of = np.array([-1 if kind is None else kind for kind in kinds.of_manifest], np.int64)
        owners = entries.column("manifest")
        rows = np.flatnonzero(kind_of[owners] >= 0) if len(owners) else np.array([], np.int64)
        group = kind_of[owners[rows]]
        names = {key: number for number, key in enumerate(dict.fromkeys(map(_layout_key, kinds.kinds)))}
        layout_of_kind = [names[_layout_key(kind)] for kind in kinds.kinds]
        partition, layouts = _partitions(entries, kinds.kinds, layout_of_kind, rows, group, first_fields)
        columns = EntryColumns(
            manifest=np.searchsorted(np.array(numbers, np.int64), owners[rows]),
            group=group,
            partition=partition,
            sequence_number=entries.column("sequence_number")[rows],
            file_sequence_number=entries.column("file_sequence_number")[rows],
            size=encoded_sizes(entries, rows),
        )
        return cls(entries, kinds, numbers, rows, columns, layouts, layout_of_kind)

    def manifests(self, format_version: int) -> list[SourceManifest]:
        current = [is_current(one, format_version) for one in self.entries.formats]
        return [
            SourceManifest(
                self.entries.manifests[number].length,
                self.entries.deleted[number],
                # Rows from before the upgrade to version 3 get their ids with any commit.
                current[self.entries.format_of[number]],
            )
            for number in self.numbers
        ]

    def groups(self, writer: ManifestWriter) -> list[EntryGroup]:
        found = []
        for number, kind in enumerate(self.kinds.kinds):
            own = np.flatnonzero(self.columns.group == number)
            ordered = own[np.lexsort((self.columns.sequence_number[own], self.columns.partition[own]))]
            ratio = writer.compression(number, self.rows[ordered])
            found.append(EntryGroup(self.layout_of_kind[number], kind.holds_deletes, ratio))
        return found


def _layout_key(kind: ManifestKind) -> object:
    return kind.spec_id, kind.shape


def _partitions(
    entries: EncodedEntries,
    kinds: Sequence[ManifestKind],
    layout_of_kind: Sequence[int],
    rows: Ints,
    group: Ints,
    first_fields: Mapping[int, list[int]],
) -> tuple[Ints, list[Layout]]:
    """Numbers the partitions of every layout in the order of their values."""
    encoded = entries.table["partition"].take(rows).combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    layout_of = np.array(layout_of_kind, np.int64)
    pairs = layout_of[group] * max(1, len(texts)) + encoded.indices.to_numpy() if len(rows) else rows
    distinct, inverse = np.unique(pairs, return_inverse=True)
    number_of = np.zeros(len(distinct), np.int64)
    layouts: list[Layout] = []
    first = 0
    for layout in range(len(set(layout_of_kind))):
        kind = kinds[layout_of_kind.index(layout)]
        members = np.flatnonzero(distinct // max(1, len(texts)) == layout)
        values = kind.partitions([texts[code] for code in (distinct[members] % max(1, len(texts))).tolist()])
        codes = _codes(values, len(kind.partition_field_ids))
        ids = kind.partition_field_ids
        leading = [ids.index(one) for one in first_fields[kind.spec_id] if one in ids]
        fields = [*leading, *(at for at in range(len(ids)) if at not in leading)]
        order = np.lexsort([codes[:, at] for at in reversed(fields)]) if fields else np.arange(len(values))
        number_of[members[order]] = first + np.arange(len(values))
        layouts.append(Layout(first, codes[order]))
        first += len(values)
    return number_of[inverse.reshape(-1)], layouts


def _codes(values: Sequence[tuple[Any, ...]], fields: int) -> Ints:
    """Numbers the values of each field in their order. Nulls come first, NaN last."""
    codes = np.zeros((len(values), fields), np.int64)
    for at in range(fields):
        ordered = sorted({_sort_key(row[at]) for row in values})
        number = {key: code for code, key in enumerate(ordered)}
        codes[:, at] = [number[_sort_key(row[at])] for row in values]
    return codes


def _sort_key(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and isnan(value) else (1, value)


def info_of(listed: ListedManifest) -> ManifestInfo:
    return ManifestInfo(
        path=listed.path,
        length=listed.length,
        spec_id=listed.spec_id,
        holds_deletes=listed.content != DATA,
        sequence_number=listed.sequence_number,
        added_snapshot_id=listed.added_snapshot_id,
        first_row_id=listed.first_row_id,
    )
