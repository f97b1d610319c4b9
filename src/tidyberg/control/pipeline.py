"""One job through the stages: observe, plan, execute, verify, commit, record; and undone when it cannot end well."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tidyberg.commit.cleanup import referenced_paths, remove
from tidyberg.commit.conflicts import validate_groups
from tidyberg.commit.outputs import check_outputs, existing_outputs
from tidyberg.commit.publish import Committed, FinishedGroup, Publisher, RetryPolicy
from tidyberg.control.lease import JobRecord
from tidyberg.errors import CommitStateUnknown, StalePlan, TableReplaced, TidybergError
from tidyberg.execute.delete_contents import with_delete_contents
from tidyberg.execute.engine import AnyResult, CancelToken, Engine
from tidyberg.execute.tasks import build_tasks, storage_access
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import CompactionStats, Intent, JobStatus, Progress, Stage
from tidyberg.model.options import PlanOptions, Prices, VerifyMode
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.report import CompactionResult, EventSink, GroupFinished, Notice, StageStarted
from tidyberg.model.task import ChecksumResult, Task, TaskResult
from tidyberg.observe.cache import ManifestCache
from tidyberg.verify.contents import checksum_tasks, verify_contents
from tidyberg.verify.counts import verify_counts
from tidyberg.verify.partitions import verify_partitions


@dataclass
class Pipeline:
    catalog: Catalog
    table: Table
    inventory: Inventory
    plan: Plan
    options: PlanOptions
    verify: VerifyMode
    record: JobRecord
    engine: Callable[[], Engine]
    cache: ManifestCache
    retry: RetryPolicy
    prices: Prices
    emit: EventSink
    cancel: CancelToken
    now_ms: Callable[[], int]
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> CompactionResult:
        groups, stale = self._still_applicable()
        if not groups:
            return self._nothing_to_do()
        engine = self.engine()
        tasks = self._intend(engine, groups)
        try:
            results = self._execute(engine, tasks, groups)
            self._verify(engine, tasks, groups, results)
            self.cancel.raise_if_cancelled()
            committed = self._commit(groups, results)
        except CommitStateUnknown:
            self.record.update(unresolved=True)
            raise
        except TidybergError as error:
            self._undo(engine, error)
            raise
        except BaseException as error:
            if self.record.job.sent_snapshot_id is None:
                self._undo(engine, error)
            else:  # interrupted while a commit was under way: recovery finds out whether it landed
                self.record.update(unresolved=True)
            raise
        self.record.update(snapshot_id=committed.snapshot_id)
        left = {**stale, **committed.conflicts}
        self._remove_uncommitted(groups, results, committed)
        return self._finish(groups, results, committed, left, engine)

    def _still_applicable(self) -> tuple[list[FileGroup], dict[int, str]]:
        """A plan from a file may be older than the table: its groups that went stale are left out, and said so."""
        if str(self.table.metadata.table_uuid) != self.plan.table_uuid:
            raise StalePlan(f"The plan is for another table that was called {self.plan.table}.", hint="Plan again.")
        validation = validate_groups(self.plan.groups, self.inventory, self.plan.sequence_number, self.plan.deletes)
        for group_id, reason in validation.conflicts.items():
            self.emit(Notice("warning", f"group {group_id} of the plan went stale: {reason}"))
        if self.plan.groups and not validation.replaceable:
            reason = next(iter(validation.conflicts.values()))
            raise StalePlan(f"Every group of the plan went stale: {reason}.", hint="Plan again.")
        return [replaceable.group for replaceable in validation.replaceable], dict(validation.conflicts)

    def _intend(self, engine: Engine, groups: Sequence[FileGroup]) -> list[Task]:
        tasks = build_tasks(
            groups,
            self.inventory,
            self.table.location_provider(),
            job_id=self.record.job.job_id,
            target_file_size=self.plan.target_file_size,
            options=self.options,
            checksum=self.verify is VerifyMode.FULL,
            deletes=self.plan.deletes,
        )
        intent = Intent(
            job_id=self.record.job.job_id,
            sequence_number=self.plan.sequence_number,
            directories={task.group_id: task.output_directory for task in tasks},
            attempts=engine.attempts,
            outputs={task.group_id: task.outputs for task in tasks},
            settle_seconds=engine.settle_seconds,
        )
        self.record.update(
            stage=Stage.EXECUTE,
            intent=intent,
            engine=engine.name,
            cores=engine.resources.cores,
            plan_hash=self.plan.hash,
            predicted_seconds=self.plan.estimate.seconds,
            predicted_dollars=self.plan.estimate.dollars,
            progress=Progress(
                partitions_total=len({(group.spec_id, group.partition_path) for group in groups}),
                groups_total=len(groups),
            ),
        )
        return tasks

    def _execute(self, engine: Engine, tasks: Sequence[Task], groups: Sequence[FileGroup]) -> list[TaskResult]:
        self.emit(StageStarted(Stage.EXECUTE, f"rewriting {len(groups)} groups on {engine.name}"))
        by_id = {group.group_id: group for group in groups}
        open_partitions: dict[tuple[int, str], int] = {}
        for group in groups:
            key = (group.spec_id, group.partition_path)
            open_partitions[key] = open_partitions.get(key, 0) + 1

        def on_result(result: AnyResult) -> None:
            if not isinstance(result, TaskResult):
                return
            group = by_id[result.group_id]
            key = (group.spec_id, group.partition_path)
            open_partitions[key] -= 1
            before = self.record.job.progress
            progress = replace(
                before,
                partitions_completed=before.partitions_completed + (open_partitions[key] == 0),
                groups_completed=before.groups_completed + 1,
                files_processed=before.files_processed + len(group.files),
                bytes_read=before.bytes_read + result.bytes_read,
                bytes_written=before.bytes_written + result.bytes_written,
            )
            self.record.update(progress=progress, heartbeat_ms=self.now_ms())
            self.emit(GroupFinished(group.group_id, group.partition_path, progress))

        started = time.monotonic()
        storage = storage_access(self.table)
        results = engine.run(
            with_delete_contents(tasks, storage),
            storage,
            on_result=on_result,
            cancel=self.cancel,
            max_parallelism=self.options.max_parallelism,
        )
        self.record.update(execute_seconds=time.monotonic() - started)
        return [result for result in results if isinstance(result, TaskResult)]

    def _verify(
        self, engine: Engine, tasks: Sequence[Task], groups: Sequence[FileGroup], results: Sequence[TaskResult]
    ) -> None:
        self.record.update(stage=Stage.VERIFY)
        if self.verify is VerifyMode.OFF:
            return
        self.emit(StageStarted(Stage.VERIFY, f"verifying {len(groups)} groups ({self.verify.value})"))
        pinned = self.inventory.pinned
        for group, result in zip(groups, results, strict=True):
            verify_counts(group, result, pinned.schema, lineage=pinned.format_version >= 3)
            if group.output_spec_id is not None:
                verify_partitions(group, result, pinned.schema, pinned.specs[group.output_spec_id])
        if self.verify is VerifyMode.FULL:
            found = engine.run(
                checksum_tasks(tasks, results),
                storage_access(self.table),
                on_result=lambda _: None,
                cancel=self.cancel,
                max_parallelism=self.options.max_parallelism,
            )
            verify_contents(results, [result for result in found if isinstance(result, ChecksumResult)])

    def _commit(self, groups: Sequence[FileGroup], results: Sequence[TaskResult]) -> Committed:
        self.record.update(stage=Stage.COMMIT)
        self.emit(StageStarted(Stage.COMMIT, f"committing {len(groups)} groups"))
        finished = [FinishedGroup(group, result) for group, result in zip(groups, results, strict=True)]
        check_outputs(self.table.io, results)
        publisher = Publisher(
            catalog=self.catalog,
            plan=self.plan,
            job_id=self.record.job.job_id,
            snapshot_id=self.table.metadata.new_snapshot_id(),
            journal=self.record,
            cache=self.cache,
            retry=self.retry,
            notice=lambda text: self.emit(Notice("warning", text)),
            now_ms=self.now_ms,
            sleep=self.sleep,
        )
        return publisher.publish(finished)

    def _undo(self, engine: Engine, error: BaseException) -> None:
        """I6: after a definite failure nothing that the job wrote remains; what prevents that is left to recovery."""
        if not self.record.owns_table():
            self.record.update(unresolved=True)
            return  # outputs have an owner, and it moved with the lease
        if self.record.job.stage in (Stage.EXECUTE, Stage.VERIFY) and engine.settle_seconds:
            self.emit(Notice("info", "waiting for workers to stop, then removing what was written"))
            self.sleep(engine.settle_seconds)
        try:
            problem = self._remove_all(table_is_gone=isinstance(error, TableReplaced))
        except Exception as failure:  # noqa: BLE001  # the job's own error is what the caller must hear of
            problem = str(failure)
        if problem:
            self.emit(Notice("warning", f"files are left for `tidyberg recover`: {problem}"))
            self.record.update(unresolved=True)
        else:
            self.record.forget_paths()

    def _remove_all(self, *, table_is_gone: bool) -> str | None:
        """Remove every file of the job that no snapshot references; says what could not be removed."""
        job = self.record.job
        assert job.intent is not None
        candidates = {*existing_outputs(self.table.io, job.intent), *self.record.noted_paths()}
        referenced: set[str] = set()
        if job.sent_snapshot_id is not None and not table_is_gone:
            try:
                fresh = self.catalog.load_table(self.plan.table.identifier)
                referenced = referenced_paths(fresh, candidates, job.intent.sequence_number)
            except NoSuchTableError:
                referenced = set()  # dropped after all its answers had been a definite no
        refused = remove(self.table.io, sorted(candidates - referenced)).refused
        return f"{len(refused)} could not be removed, first {refused[0][0]}: {refused[0][1]}" if refused else None

    def _remove_uncommitted(
        self, groups: Sequence[FileGroup], results: Sequence[TaskResult], committed: Committed
    ) -> None:
        """Outputs of groups that were left out, and of attempts that failed before one succeeded."""
        intent = self.record.job.intent
        assert intent is not None
        if committed.attempts <= 1 and len(committed.groups) == len(groups) and not any(r.attempt for r in results):
            self.record.forget_paths()
            return
        keep = {file.path for r in results if r.group_id in committed.groups for file in r.outputs}
        try:
            candidates = {*existing_outputs(self.table.io, intent), *self.record.noted_paths()} - keep
            fresh = self.catalog.load_table(self.plan.table.identifier)
            referenced = referenced_paths(fresh, candidates, intent.sequence_number)
        except Exception as error:  # noqa: BLE001  # the commit stands, whatever keeps us from tidying up after it
            self.emit(Notice("warning", f"leftovers are kept until the next run: {error}"))
            self.record.update(unresolved=True)
            return
        if remove(self.table.io, sorted(candidates - referenced)).refused:
            self.record.update(unresolved=True)
        else:
            self.record.forget_paths()

    def _nothing_to_do(self) -> CompactionResult:
        sizes = tuple(self.inventory.data_files["size"].to_pylist())
        stats = self._stats(sizes, sizes, compacted=0)
        job = self.record.update(status=JobStatus.SUCCEEDED, stage=Stage.DONE, finished_ms=self.now_ms(), stats=stats)
        return CompactionResult("nothing", job, self.plan, stats, None, 0, (), sizes, sizes)

    def _finish(
        self,
        groups: Sequence[FileGroup],
        results: Sequence[TaskResult],
        committed: Committed,
        left: dict[int, str],
        engine: Engine,
    ) -> CompactionResult:
        done = set(committed.groups)
        replaced = pa.array([file.path for g in groups if g.group_id in done for file in g.files], pa.string())
        files = self.inventory.data_files
        kept = files.filter(pc.invert(pc.is_in(files["path"], value_set=replaced)))
        added = [file.size for result in results if result.group_id in done for file in result.outputs]
        before, after = tuple(files["size"].to_pylist()), (*kept["size"].to_pylist(), *added)
        stats = self._stats(before, after, compacted=len(replaced))
        seconds = stats.compaction_time_ms / 1000
        compute = seconds * engine.resources.memory_gb * self.prices.compute_per_gb_second
        notes = tuple(f"group {group_id} was left: {reason}" for group_id, reason in sorted(left.items()))
        job = self.record.update(
            status=JobStatus.SUCCEEDED,
            stage=Stage.DONE,
            finished_ms=self.now_ms(),
            snapshot_id=committed.snapshot_id,
            stats=stats,
            actual_dollars=compute + self.plan.estimate.request_dollars,
            notes=notes,
        )
        return CompactionResult(
            "committed", job, self.plan, stats, committed.snapshot_id, len(done), notes, before, after
        )

    def _stats(self, before: Sequence[int], after: Sequence[int], compacted: int) -> CompactionStats:
        started = self.record.job.started_ms or self.record.job.created_ms
        return CompactionStats(
            files_before=len(before),
            files_after=len(after),
            files_compacted=compacted,
            files_removed=compacted,
            bytes_before=sum(before),
            bytes_after=sum(after),
            bytes_saved=sum(before) - sum(after),
            snapshots_expired=0,
            compaction_time_ms=float(self.now_ms() - started),
            small_files_remaining=sum(size < self.options.small_file_threshold for size in after),
        )
