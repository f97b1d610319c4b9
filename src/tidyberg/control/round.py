"""One plan of a job: rewritten, verified and committed, at once or in chunks of groups as they finish."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from pyiceberg.table import Table

from tidyberg.commit.conflicts import hindrance, validate_groups
from tidyberg.commit.outputs import check_outputs
from tidyberg.commit.publish import Committed, FinishedGroup, Publisher
from tidyberg.control.leftovers import Leftovers
from tidyberg.control.tally import Tally, add_copied, add_spliced
from tidyberg.control.workbench import Workbench, work_of
from tidyberg.errors import GroupsConflict, StalePlan, TooManyOutputs
from tidyberg.execute.engine import Engine, gathered
from tidyberg.execute.tasks.build import build_tasks
from tidyberg.execute.tasks.delete_contents import with_delete_contents
from tidyberg.execute.tasks.division import divided
from tidyberg.execute.tasks.renewal import RenewedAccess
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import Intent, Stage
from tidyberg.model.options import VerifyMode
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.report import GroupFinished, StageStarted
from tidyberg.model.task import ChecksumResult, Task, TaskResult
from tidyberg.model.words import plural
from tidyberg.observe.nans import read_nans
from tidyberg.planning.document import plan_to_json
from tidyberg.storage import table_files as objects
from tidyberg.storage.table_access import storage_access
from tidyberg.verify.contents import checksum_tasks, verify_contents
from tidyberg.verify.delete_paths import DeletePaths
from tidyberg.verify.groups import verify_group
from tidyberg.verify.parts import Joining


@dataclass
class Round:
    bench: Workbench
    table: Table
    inventory: Inventory
    plan: Plan
    tally: Tally
    adopted: Mapping[int, TaskResult] = field(default_factory=dict)  # groups that a dead job had finished
    after_death: bool = False  # of the process that worked on the table last
    settle_seconds: float = 0.0  # how long workers may still write, when the round ended by an error
    _outputs: int = 0
    _groups: dict[int, FileGroup] = field(default_factory=dict)
    _tasks: dict[int, Task] = field(default_factory=dict)
    _waiting: list[TaskResult] = field(default_factory=list)  # finished, and not committed yet
    _open_partitions: dict[tuple[int, str], int] = field(default_factory=dict)

    def run(self) -> None:
        """Take the plan's groups to their end: committed, or left in the tally with the reason."""
        self._groups = {group.group_id: group for group in self._applicable()}
        if not self._groups:
            return
        engine = self.bench.engine()
        self._intend(engine)
        for result in self.adopted.values():
            self._take(result)
        missing = [task for group_id, task in self._tasks.items() if group_id not in self.adopted]
        if missing:
            self._execute(engine, missing)
        if self._waiting:
            self._commit_waiting()

    def _applicable(self) -> list[FileGroup]:
        """A plan from a file may be older than the table: its groups that went stale are left out, and said so."""
        if str(self.table.metadata.table_uuid) != self.plan.table_uuid:
            raise StalePlan(f"The plan is for another table that was called {self.plan.table}.", hint="Plan again.")
        if self.plan.groups and (reason := hindrance(self.plan, self.inventory.pinned)):
            raise StalePlan(f"The plan cannot be committed: {reason}.", hint="Plan again.")
        validation = validate_groups(self.plan.groups, self.inventory, self.plan)
        by_id = {group.group_id: group for group in self.plan.groups}
        for group_id, reason in validation.conflicts.items():
            self.bench.warn(f"group {group_id} of the plan went stale: {reason}")
            self.tally.leave(by_id[group_id], reason)
        if self.plan.groups and not validation.replaceable:
            reason = next(iter(validation.conflicts.values()))
            raise StalePlan(f"Every group of the plan went stale: {reason}.", hint="Plan again.")
        return [replaceable.group for replaceable in validation.replaceable]

    def _intend(self, engine: Engine) -> None:
        """Record every name that will be used, before the first byte is written."""
        record, groups = self.bench.record, list(self._groups.values())
        tasks = build_tasks(
            groups,
            self.inventory,
            self.table.location_provider(),
            job_id=record.job.job_id,
            target_file_size=self.plan.target_file_size,
            options=self.bench.options,
            checksum=self.bench.verify is VerifyMode.FULL,
            deletes=self.plan.deletes,
            nans=read_nans(self.table.io, self.inventory, self._files_to_copy(), objects.fetch),
            after_death=self.after_death,
        )
        self._tasks = {task.group_id: task for task in tasks}
        self.tally.open.update(self._groups)
        for group in groups:
            key = (group.spec_id, group.partition_path)
            self._open_partitions[key] = self._open_partitions.get(key, 0) + 1
        intent = Intent(
            job_id=record.job.job_id,
            sequence_number=self.plan.sequence_number,
            directories={task.group_id: task.output_directory for task in tasks},
            attempts=engine.attempts,
            outputs={task.group_id: task.outputs for task in tasks},
            parts={task.group_id: task.parts for task in tasks if task.parts > 1},
            settle_seconds=engine.settle_seconds,
            adopted={group_id: tuple(file.path for file in r.outputs) for group_id, r in self.adopted.items()},
            name_mapping=self.inventory.pinned.name_mapping,
        )
        before = record.job.progress
        record.save_plan(plan_to_json(self.plan))
        record.update(
            stage=Stage.EXECUTE,
            intent=_joined(record.job.intent, intent),
            engine=engine.name,
            cores=engine.resources.cores,
            cluster=engine.resources.name,
            groups_adopted=record.job.groups_adopted + len(self.adopted),
            plan_hash=self.plan.hash,
            predicted_seconds=(record.job.predicted_seconds or 0.0) + self.plan.estimate.seconds,
            predicted_bytes=(record.job.predicted_bytes or 0) + self.plan.estimate.bytes_written,
            predicted_dollars=(record.job.predicted_dollars or 0.0) + self.plan.estimate.dollars,
            progress=replace(
                before,
                partitions_total=before.partitions_total + len(self._open_partitions),
                groups_total=before.groups_total + len(groups),
            ),
        )
        record.raise_if_lost()  # else nobody would know of what it writes

    def _files_to_copy(self) -> list[str]:
        groups = [group for group in self._groups.values() if group.mode == "copy"]
        return [file.path for group in groups if group.group_id not in self.adopted for file in group.files]

    def _execute(self, engine: Engine, tasks: Sequence[Task]) -> None:
        self.bench.emit(StageStarted(Stage.EXECUTE, f"rewriting {plural(len(tasks), 'group')} on {engine.name}"))
        storage = self._access()
        work = work_of([self._groups[task.group_id] for task in tasks])
        joining = Joining(self._tasks, self.inventory.pinned.schema)
        try:
            with self.bench.tracer.span("execution", engine=engine.name, **work):
                run = engine.run(
                    with_delete_contents(divided(tasks), storage, per_task=self.bench.options.inline_delete_size),
                    storage,
                    cancel=self.bench.cancel,
                    max_parallelism=self.bench.options.max_parallelism,
                )
                with closing(run) as results:
                    for result in results:
                        assert isinstance(result, TaskResult)
                        self._trace(result)
                        if (whole := joining.take(result)) is not None:
                            self._take(whole)
        except BaseException:
            self.settle_seconds = engine.settle_seconds
            raise

    def _access(self) -> RenewedAccess:
        """Long runs outlive credentials that the catalog vends."""

        def renew() -> dict[str, str]:
            return storage_access(self.bench.catalog.load_table(self.bench.record.job.table.identifier).io).reveal()

        return RenewedAccess(storage_access(self.table.io).reveal(), renew, self.bench.now_ms)

    def _take(self, result: TaskResult) -> None:
        """A group is rewritten; workers go on with others while finished ones are committed."""
        if result.group_id not in self.adopted:
            self.bench.record.save_finished(result, self.bench.now_ms())
        self._count(result)
        self._check_outputs(len(result.outputs))
        self.bench.record.raise_if_lost()
        for warning in result.warnings:
            if self.tally.note(warning):
                self.bench.warn(warning)
        self._waiting.append(result)
        if self.bench.options.commit_every is not None and len(self._waiting) >= self.bench.options.commit_every:
            self._commit_waiting()
            self.bench.record.update(stage=Stage.EXECUTE)

    def _check_outputs(self, outputs: int) -> None:
        """How many files rows are sorted into is known only afterwards: the job ends before it floods the storage."""
        self._outputs += outputs
        most = self.bench.options.max_output_files
        if self._outputs > most:
            raise TooManyOutputs(
                f"The job came to {self._outputs:,} files; it may write {most:,}.",
                hint="Give a larger target_file_size or a filter, or raise limits.max_output_files.",
            )

    def _trace(self, result: TaskResult) -> None:
        """Tasks run elsewhere: their span is made from the times that came back with the result."""
        if result.started_ns:
            self.bench.tracer.add(
                "task",
                result.started_ns,
                result.started_ns + round(result.seconds * 1e9),
                group_id=result.group_id,
                part=result.part or 0,
                attempt=result.attempt,
                files=len(self._groups[result.group_id].files),
                bytes=result.bytes_read,
                bytes_written=result.bytes_written,
                mode=result.mode,
                bytes_spliced=result.bytes_spliced,
                rows=result.rows_read,
                rows_deleted=result.rows_deleted,
                peak_rss_bytes=result.peak_rss_bytes,
            )

    def _count(self, result: TaskResult) -> None:
        group, record = self._groups[result.group_id], self.bench.record
        key = (group.spec_id, group.partition_path)
        self._open_partitions[key] -= 1
        before = record.job.progress
        progress = replace(
            before,
            partitions_completed=before.partitions_completed + (self._open_partitions[key] == 0),
            groups_completed=before.groups_completed + 1,
            files_processed=before.files_processed + len(group.files),
            bytes_read=before.bytes_read + result.bytes_read,
            bytes_written=before.bytes_written + result.bytes_written,
        )
        spent = 0.0 if result.group_id in self.adopted else result.seconds
        record.update(
            progress=progress,
            heartbeat_ms=self.bench.now_ms(),
            task_seconds=record.job.task_seconds + spent,
            copied=add_copied(record.job.copied, group, result, spent),
            spliced=add_spliced(record.job.spliced, group, result, spent),
            files_joined=record.job.files_joined + result.files_joined,
            requests=Counter(record.job.requests) + Counter(result.requests),
        )
        self.bench.emit(GroupFinished(group.group_id, group.partition_path, progress))

    def _commit_waiting(self) -> None:
        results = sorted(self._waiting, key=lambda result: result.group_id)
        self._waiting = []
        groups = [self._groups[result.group_id] for result in results]
        self.bench.record.check_ownership()  # else its outputs may be gone, and that is no damage
        with self.bench.tracer.span("verify", mode=self.bench.verify.value, groups=len(groups)):
            self._verify(groups, results)
        self.bench.cancel.raise_if_cancelled()
        committed: Committed | None = None
        try:
            with self.bench.tracer.span("commit", **work_of(groups)) as span:
                committed = self._publish(groups, results)
                span.set(snapshot_id=committed.snapshot_id, attempts=committed.attempts)
            conflicts = committed.conflicts
        except GroupsConflict as conflict:
            self.bench.warn(str(conflict))
            conflicts = conflict.reasons
        if committed is not None:
            record = self.bench.record
            record.committed_number = committed.sequence_number
            record.update(
                snapshot_id=committed.snapshot_id,
                commits=record.job.commits + 1,
                commit_retries=record.job.commit_retries + max(0, committed.attempts - 1),
            )
            self.tally.add(groups, results, committed)
        if conflicts:
            self.bench.record.update(conflicts=self.bench.record.job.conflicts + len(conflicts))
        for group in groups:
            if group.group_id in conflicts:
                self.tally.leave(group, conflicts[group.group_id])
        Leftovers(self.bench, self.table).settle(results, committed)

    def _verify(self, groups: Sequence[FileGroup], results: Sequence[TaskResult]) -> None:
        self.bench.record.update(stage=Stage.VERIFY)
        if self.bench.verify is VerifyMode.OFF:
            return
        self.bench.emit(
            StageStarted(Stage.VERIFY, f"verifying {plural(len(groups), 'group')} ({self.bench.verify.value})")
        )
        paths_of = DeletePaths(self._access())
        for group, result in zip(groups, results, strict=True):
            verify_group(group, result, self.inventory.pinned, self.plan.deletes, paths_of)
        if self.bench.verify is VerifyMode.FULL:
            run = self.bench.engine().run(
                checksum_tasks(list(self._tasks.values()), results),
                self._access(),
                cancel=self.bench.cancel,
                max_parallelism=self.bench.options.max_parallelism,
            )
            with closing(run) as found:
                verify_contents(results, [result for result in gathered(found) if isinstance(result, ChecksumResult)])

    def _publish(self, groups: Sequence[FileGroup], results: Sequence[TaskResult]) -> Committed:
        record = self.bench.record
        record.update(stage=Stage.COMMIT)
        self.bench.emit(StageStarted(Stage.COMMIT, f"committing {plural(len(groups), 'group')}"))
        check_outputs(self.table.io, results)
        self.tally.chunks += 1
        publisher = Publisher(
            catalog=self.bench.catalog,
            plan=self.plan,
            job_id=record.job.job_id,
            chunk=self.tally.chunks - 1,
            snapshot_id=self.table.metadata.new_snapshot_id(),
            journal=record,
            name_mapping=self.inventory.pinned.name_mapping,
            cache=self.bench.cache,
            retry=self.bench.retry,
            notice=self.bench.warn,
            now_ms=self.bench.now_ms,
            sleep=self.bench.sleep,
        )
        return publisher.publish([FinishedGroup(*done) for done in zip(groups, results, strict=True)])


def _joined(open_intent: Intent | None, intent: Intent) -> Intent:
    """With what is not settled of earlier rounds."""
    if open_intent is None:
        return intent
    return replace(
        intent,
        sequence_number=min(open_intent.sequence_number, intent.sequence_number),
        directories={**open_intent.directories, **intent.directories},
        attempts=max(open_intent.attempts, intent.attempts),
        outputs={**open_intent.outputs, **intent.outputs},
        parts={**open_intent.parts, **intent.parts},
        adopted={**open_intent.adopted, **intent.adopted},
    )
