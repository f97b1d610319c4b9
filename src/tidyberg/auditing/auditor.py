"""Audits replace snapshots of any tool: a replace must not change the rows that readers see [I1]."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tidyberg.auditing.compare import Differences, FileRows, find_differences
from tidyberg.auditing.states import State, differing_states
from tidyberg.auditing.tasks import Reading, digest_tasks, readings
from tidyberg.commit.receipt import (
    CONTENT_CHECKSUM,
    COPIED_FILES,
    FOOTER_CHECKSUM,
    content_checksum,
    copied_files,
)
from tidyberg.errors import BadInput, DamagedFile, UnknownReference, Unsupported
from tidyberg.execute.engine import AnyResult, AnyTask, CancelToken, Engine, Results, gathered
from tidyberg.execute.kernel.audit import PARTS, read_rows, read_sums
from tidyberg.execute.tasks.delete_contents import with_delete_contents
from tidyberg.model.audit import AuditReport, Harm, Receipt, SnapshotAudit, Verdict
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import Progress, Stage
from tidyberg.model.report import EventSink, GroupFinished, StageStarted
from tidyberg.model.table import Pinned, SnapshotInfo
from tidyberg.model.task import KEY_MEMORY_BYTES, OUTPUT_NAME, AuditResult, DigestResult
from tidyberg.model.words import plural
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.storage.access import storage_access

_MOST_ROWS = 20_000_000  # that are compared one by one; each takes 25 bytes in the driver

Parts = npt.NDArray[np.uint64]


@dataclass
class Auditor:
    table: Table
    pinned: Pinned  # the branch's head
    engine: Callable[[], Engine]
    cache: ManifestCache
    emit: EventSink
    cancel: CancelToken
    max_parallelism: int | None = None
    key_memory_bytes: int = KEY_MEMORY_BYTES

    def audit(self, snapshot_id: int | None = None) -> AuditReport:
        """Audits one snapshot, or every replace in the branch's history, newest first."""
        chosen = list(self._replaces()) if snapshot_id is None else [self._replace(snapshot_id)]
        audited = []
        for number, snapshot in enumerate(chosen, start=1):
            words = f"auditing snapshot {snapshot.snapshot_id} ({number} of {len(chosen)})"
            self.emit(StageStarted(Stage.VERIFY, words))
            audited.append(self._audit(snapshot))
        report = AuditReport(self.pinned.table, self.pinned.branch, tuple(audited))
        named = {path for one in audited for path in one.partly_numbered}
        if self.pinned.snapshot_id is None or not (named or snapshot_id is None):
            return report
        files = take_inventory(self.table, self.pinned, self.cache).data_files
        if snapshot_id is None:
            report = replace(report, partly_numbered=self._of_expired_snapshots(files, report))
        return self._with_repair(report, files)

    def _of_expired_snapshots(self, files: pa.Table, report: AuditReport) -> tuple[str, ...]:
        """Outputs of tidyberg, by name, that no audited snapshot added and that some readers refuse."""
        audited = {one.snapshot_id for one in report.snapshots}
        paths, added_by = files["path"].to_pylist(), files["snapshot_id"].to_pylist()
        ours = [
            path
            for path, added in zip(paths, added_by, strict=True)
            if added not in audited and OUTPUT_NAME.fullmatch(path.rpartition("/")[2])
        ]
        if not ours:
            return ()
        words = f"looking at the footers of {plural(len(ours), 'file')} of expired snapshots"
        self.emit(StageStarted(Stage.VERIFY, words))
        rows = files.filter(pc.is_in(files["path"], pa.array(ours, files["path"].type)))
        try:
            results = self._run(digest_tasks(rows, first_number=0, footers_of=frozenset(ours)))
        except DamagedFile:
            return ()  # a reader of the file will find the damage
        return tuple(path for one in results if isinstance(one, DigestResult) for path in one.partly_numbered)

    def _with_repair(self, report: AuditReport, files: pa.Table) -> AuditReport:
        """Adds the command that repairs live files. Its small target size makes a plan take files of any size."""
        named = {path for audited in report.snapshots for path in audited.partly_numbered} | {*report.partly_numbered}
        live = dict(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True))
        snapshots = [
            replace(one, partly_numbered=tuple(path for path in one.partly_numbered if path in live))
            for one in report.snapshots
        ]
        sizes = [size for path, size in live.items() if path in named]
        branch = "" if report.branch == "main" else f" --branch {report.branch}"
        command = f"tidyberg compact {report.table}{branch} --strategy full --mode encode --force --target-file-size"
        return replace(report, snapshots=tuple(snapshots), repair=f"{command} {min(sizes) // 2}B" if sizes else "")

    def _replaces(self) -> Iterator[SnapshotInfo]:
        current = self.pinned.snapshot_id
        while current is not None and current in self.pinned.snapshots:
            snapshot = self.pinned.snapshots[current]
            if snapshot.is_compaction:
                yield snapshot
            current = snapshot.parent_id

    def _replace(self, snapshot_id: int) -> SnapshotInfo:
        snapshot = self.pinned.snapshots.get(snapshot_id)
        if snapshot is None:
            raise UnknownReference(
                f"{self.pinned.table} has no snapshot {snapshot_id}.",
                hint="It may be expired; see the table's history.",
            )
        if not snapshot.is_compaction:
            raise BadInput(
                f"Snapshot {snapshot_id} of {self.pinned.table} is of the kind {snapshot.operation!r}, which may "
                "change rows.",
                hint="Only replace snapshots promise to change none, and can be audited.",
            )
        return snapshot

    def _audit(self, snapshot: SnapshotInfo) -> SnapshotAudit:
        blank = SnapshotAudit(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_id,
            timestamp_ms=snapshot.timestamp_ms,
            made_by=_made_by(snapshot),
            verdict=Verdict.NOT_AUDITED,
            receipt=Receipt.NONE if _promised(snapshot) is None else Receipt.UNCHECKED,
        )
        try:
            after = self._inventory(snapshot.snapshot_id, snapshot)
            receipt, partly_numbered = self._check_receipt(snapshot, after)
            blank = replace(blank, receipt=receipt, partly_numbered=partly_numbered)
            if snapshot.parent_id is None:  # some tools drop the parent id when they expire the parent
                return replace(blank, reason="its parent is expired")
            if snapshot.parent_id not in self.pinned.snapshots:
                return replace(blank, reason=f"its parent {snapshot.parent_id} is expired")
            before = self._inventory(snapshot.parent_id, snapshot)
            return self._compare(blank, *differing_states(before, after))
        except (DamagedFile, Unsupported) as error:
            return replace(blank, reason=error.message)

    def _inventory(self, snapshot_id: int, shown_as: SnapshotInfo) -> Inventory:
        """Uses the schema of the audited snapshot for both states, so that schema evolution changes no row."""
        pinned = replace(self.pinned, snapshot_id=snapshot_id, schema=self._schema(shown_as.snapshot_id))
        return take_inventory(self.table, pinned, self.cache)

    def _schema(self, snapshot_id: int) -> Schema:
        snapshot = self.table.metadata.snapshot_by_id(snapshot_id)
        schema_id = snapshot.schema_id if snapshot else None
        return self.pinned.schema if schema_id is None else self.pinned.schemas[schema_id]

    def _check_receipt(self, snapshot: SnapshotInfo, after: Inventory) -> tuple[Receipt, tuple[str, ...]]:
        """Also returns copied files whose footers some readers refuse, because the footers are read anyway."""
        promised = _promised(snapshot)
        if promised is None:
            return Receipt.NONE, ()
        added = after.data_files.filter(pc.equal(after.data_files["snapshot_id"], snapshot.snapshot_id))
        listed = snapshot.summary.get(COPIED_FILES)
        try:
            copied = copied_files(added["path"].to_pylist(), listed) if listed else frozenset[str]()
        except ValueError:
            return Receipt.BROKEN, ()
        tasks = digest_tasks(added, first_number=0, footers_of=copied)
        try:
            results = self._run(tasks)
        except DamagedFile:
            return Receipt.UNCHECKED, ()
        refused = [path for one in results if isinstance(one, DigestResult) for path in one.partly_numbered]
        digests = [digest for result in results if isinstance(result, DigestResult) for digest in result.digests]
        files = [(file.path, file.size) for task in tasks for file in task.inputs]
        found = content_checksum((*file, digest) for file, digest in zip(files, digests, strict=True))
        if found != promised:
            return Receipt.BROKEN, tuple(refused)
        return (Receipt.FOOTERS_HOLD if copied else Receipt.HOLDS), tuple(refused)

    def _compare(self, blank: SnapshotAudit, before: State, after: State) -> SnapshotAudit:
        lineage = self.pinned.format_version >= 3 and _all_rows_have_ids(before)
        audited = replace(
            blank, files_before=len(before.differing), files_after=len(after.differing), lineage_compared=lineage
        )
        found = self._compare_rows(audited, before, after, lineage=lineage)
        if found.verdict is Verdict.INTACT or not lineage:
            return found
        without = self._compare_rows(audited, before, after, lineage=False)
        if without.verdict is not Verdict.INTACT:
            return without
        # Without lineage the rows are equal, so each row that seems lost has only lost its lineage.
        harmed = [(harm, rows) for harm, rows in found.harms if harm in (Harm.LOST, Harm.HIDDEN, Harm.CHANGED)]
        examples = [replace(example, harm=Harm.LINEAGE) for example in found.examples]
        return replace(found, harms=((Harm.LINEAGE, sum(rows for _, rows in harmed)),), examples=tuple(examples))

    def _compare_rows(self, blank: SnapshotAudit, before: State, after: State, *, lineage: bool) -> SnapshotAudit:
        memory = self.key_memory_bytes
        first = readings(before, first_number=0, lineage=lineage, key_memory_bytes=memory)
        second = readings(after, first_number=len(first), lineage=lineage, key_memory_bytes=memory)
        results = self._read(first, second)
        sums = [_sum(results[: len(first)]), _sum(results[len(first) :])]
        audited = replace(
            blank, verdict=Verdict.INTACT, rows_before=int(sums[0][0].sum()), rows_after=int(sums[1][0].sum())
        )
        differing = np.flatnonzero((sums[0] != sums[1]).any(axis=0))
        if not len(differing):
            return audited
        parts = _that_fit(differing, sums[0][0] + sums[1][0])
        found = self._differences(first, second, parts)
        return replace(
            audited,
            verdict=Verdict.DAMAGED,
            harms=tuple(found.counts.items()),
            is_exact=len(parts) == len(differing),
            examples=found.examples,
        )

    def _differences(self, first: Sequence[Reading], second: Sequence[Reading], parts: Sequence[int]) -> Differences:
        chosen = [
            [replace(reading, task=replace(reading.task, parts=tuple(parts))) for reading in side]
            for side in (first, second)
        ]
        results = self._read(*chosen)
        rows = [
            FileRows(file.path, reading.partition, read_rows(hashes))
            for reading, result in zip([*first, *second], results, strict=True)
            for file, hashes in zip(reading.task.inputs, result.hashes, strict=True)
        ]
        files_before = sum(len(reading.task.inputs) for reading in first)
        return find_differences(rows[:files_before], rows[files_before:])

    def _read(self, first: Sequence[Reading], second: Sequence[Reading]) -> list[AuditResult]:
        tasks = with_delete_contents([reading.task for reading in (*first, *second)], storage_access(self.table.io))
        return [result for result in self._run(tasks) if isinstance(result, AuditResult)]

    def _run(self, tasks: Sequence[AnyTask]) -> list[AnyResult]:
        if not tasks:
            return []
        storage = storage_access(self.table.io)
        run = self.engine().run(tasks, storage, cancel=self.cancel, max_parallelism=self.max_parallelism)
        with closing(run) as results:
            return gathered(self._reporting(tasks, results))

    def _reporting(self, tasks: Sequence[AnyTask], results: Results) -> Iterator[AnyResult]:
        by_number = {task.group_id: task for task in tasks}
        progress = Progress(groups_total=len(tasks))
        for result in results:
            files = by_number[result.group_id].inputs
            progress = replace(
                progress,
                groups_completed=progress.groups_completed + 1,
                files_processed=progress.files_processed + len(files),
                bytes_read=progress.bytes_read + sum(file.size for file in files),
            )
            self.emit(GroupFinished(result.group_id, "", progress))
            yield result


def _promised(snapshot: SnapshotInfo) -> str | None:
    return snapshot.summary.get(CONTENT_CHECKSUM) or snapshot.summary.get(FOOTER_CHECKSUM)


def _made_by(snapshot: SnapshotInfo) -> str:
    summary = snapshot.summary
    name = summary.get("engine-name") or ("spark" if "spark.app.id" in summary else "unknown")
    version = summary.get("engine-version")
    return f"{name} {version}" if version else name


def _all_rows_have_ids(state: State) -> bool:
    """An upgraded table assigns ids to older rows in its next commit. Before that there are none to keep."""
    ids = state.files["first_row_id"].take(pa.array(state.differing))
    return bool(ids.null_count == 0)


def _sum(results: Sequence[AuditResult]) -> Parts:
    total = np.zeros((3, PARTS), np.uint64)
    for result in results:
        total += read_sums(result)
    return total


def _that_fit(parts: npt.NDArray[np.int64], rows: Parts) -> list[int]:
    """The parts with the fewest rows, up to the limit for comparing rows one by one. At least one."""
    ordered = parts[np.argsort(rows[parts], kind="stable")]
    fitting = int(np.searchsorted(np.cumsum(rows[ordered]), _MOST_ROWS, side="right"))
    return [int(part) for part in ordered[: max(1, fitting)]]
