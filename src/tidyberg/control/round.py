"""One plan of a job: executes it, verifies the results, and commits them at once or in chunks of finished groups."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from pyiceberg.table import Table

from tidyberg.commit.conflicts import refusal_to_commit, validate_groups
from tidyberg.commit.loop import CommitLoop
from tidyberg.commit.outputs import check_outputs
from tidyberg.commit.publish import Committed, FinishedGroup, Publisher
from tidyberg.control.context import JobContext, span_attributes
from tidyberg.control.key_joins import KeyJoins
from tidyberg.control.outcome import JobTotals
from tidyberg.control.progress import RoundProgress
from tidyberg.control.sorted_groups import SortedGroups
from tidyberg.control.uncommitted_files import UncommittedFiles
from tidyberg.errors import GroupsConflict, OutOfTime, StalePlan, TooManyOutputs
from tidyberg.execute.engine import AnyResult, AnyTask, Engine, gathered
from tidyberg.execute.tasks.build import build_tasks, partitions_of
from tidyberg.execute.tasks.delete_contents import with_delete_contents
from tidyberg.execute.tasks.division import divided
from tidyberg.execute.tasks.key_joins import PlannedJoin, plan_joins
from tidyberg.execute.tasks.range_sort import may_be_large, reduce_tasks
from tidyberg.execute.tasks.renewal import RenewedAccess
from tidyberg.execute.time_budget import current_budget
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import Intent, Stage
from tidyberg.model.options import VerifyMode
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.report import StageStarted
from tidyberg.model.task import AuditResult, ChecksumResult, Task, TaskResult
from tidyberg.model.words import plural
from tidyberg.observe.nans import read_nans
from tidyberg.planning.document import plan_to_json
from tidyberg.storage.access import storage_access
from tidyberg.verify.contents import checksum_tasks, verify_contents
from tidyberg.verify.delete_paths import DeletePaths
from tidyberg.verify.groups import verify_group
from tidyberg.verify.merged_deletes import survivor_tasks, verify_survivors
from tidyberg.verify.parts import Joining


@dataclass(frozen=True)
class PlannedTable:
    """A table as it was observed, and the plan for it."""

    table: Table
    inventory: Inventory
    plan: Plan
    adopted: Mapping[int, TaskResult] = field(default_factory=dict)  # groups that a dead job had finished
    after_death: bool = False  # the last job of the table died


@dataclass
class Round:
    context: JobContext
    planned: PlannedTable
    totals: JobTotals
    settle_seconds: float = 0.0  # after an error: how long workers may still write
    _outputs: int = 0
    _groups: dict[int, FileGroup] = field(default_factory=dict)
    _tasks: dict[int, Task] = field(default_factory=dict)
    _joins: Sequence[PlannedJoin] = ()
    _waiting: list[TaskResult] = field(default_factory=list)  # finished, and not committed yet
    _progress: RoundProgress = field(init=False)

    def run(self) -> None:
        """Commits each group of the plan, or leaves it out and adds the reason to the totals."""
        self._groups = {group.group_id: group for group in self._applicable()}
        if not self._groups:
            return
        engine, adopted = self.context.engine(), self.planned.adopted
        self._progress = RoundProgress(self.context, self._groups, adopted)
        self._record_intent(engine)
        for result in adopted.values():
            self._take(result)
        missing = [task for group_id, task in self._tasks.items() if group_id not in adopted]
        if missing:
            self._execute(engine, missing)
        if self._waiting:
            self._commit_waiting()
        KeyJoins(self.context, self._joins).remove_scratch(self.planned.table)

    def _applicable(self) -> list[FileGroup]:
        """A given plan may be older than the table. Its stale groups are left out, with a warning."""
        plan, pinned = self.planned.plan, self.planned.inventory.pinned
        if str(self.planned.table.metadata.table_uuid) != plan.table_uuid:
            raise StalePlan(f"The plan is for another table that was called {plan.table}.", hint="Plan again.")
        if plan.groups and (reason := refusal_to_commit(plan, pinned)):
            raise StalePlan(f"The plan cannot be committed: {reason}.", hint="Plan again.")
        validation = validate_groups(plan.groups, self.planned.inventory, plan)
        by_id = {group.group_id: group for group in plan.groups}
        for group_id, reason in validation.conflicts.items():
            self.context.warn(f"group {group_id} of the plan went stale: {reason}")
            self.totals.leave(by_id[group_id], reason)
        if plan.groups and not validation.replaceable:
            reason = next(iter(validation.conflicts.values()))
            raise StalePlan(f"Every group of the plan went stale: {reason}.", hint="Plan again.")
        return [replaceable.group for replaceable in validation.replaceable]

    def _record_intent(self, engine: Engine) -> None:
        """Records every output name that may be used, before the first byte is written [I6]."""
        record, groups, request = self.context.record, list(self._groups.values()), self.context.request
        table, inventory, plan = self.planned.table, self.planned.inventory, self.planned.plan
        tasks = build_tasks(
            groups,
            inventory,
            table.location_provider(),
            job_id=record.job.job_id,
            target_file_size=plan.target_file_size,
            options=request.options,
            checksum=request.verify is VerifyMode.FULL,
            deletes=plan.deletes,
            nans=read_nans(table.io, inventory, self._files_to_copy()),
            after_death=self.planned.after_death,
        )
        tasks = [replace(task, parts=reduce_tasks(task)) if may_be_large(task) else task for task in tasks]
        self._tasks = {task.group_id: task for task in tasks}
        to_run = [task for task in tasks if task.group_id not in self.planned.adopted]
        self._joins = plan_joins(
            to_run,
            partitions_of(groups, inventory),
            request.options.join_delete_size,
            first_number=self.totals.joins,
        )
        self.totals.joins += len(self._joins)
        self.totals.open.update(self._groups)
        intent = Intent(
            job_id=record.job.job_id,
            sequence_number=plan.sequence_number,
            directories={task.group_id: task.output_directory for task in tasks},
            attempts=engine.attempts,
            outputs={task.group_id: task.outputs for task in tasks},
            parts={task.group_id: task.parts for task in tasks if task.parts > 1},
            settle_seconds=engine.settle_seconds,
            adopted={group_id: tuple(file.path for file in r.outputs) for group_id, r in self.planned.adopted.items()},
            name_mapping=inventory.pinned.name_mapping,
            joins={join.number: join.place.directory for join in self._joins},
        )
        before = record.job.progress
        record.save_plan(plan_to_json(plan))
        record.update(
            stage=Stage.EXECUTE,
            intent=_joined_intents(record.job.intent, intent),
            engine=engine.name,
            cores=engine.resources.cores,
            cluster=engine.resources.name,
            groups_adopted=record.job.groups_adopted + len(self.planned.adopted),
            plan_hash=plan.hash,
            predicted_seconds=(record.job.predicted_seconds or 0.0) + plan.estimate.seconds,
            predicted_bytes=(record.job.predicted_bytes or 0) + plan.estimate.bytes_written,
            predicted_dollars=(record.job.predicted_dollars or 0.0) + plan.estimate.dollars,
            progress=replace(
                before,
                partitions_total=before.partitions_total + self._progress.partitions,
                groups_total=before.groups_total + len(groups),
            ),
        )
        record.raise_if_lost()  # the intent was not saved, and nothing may be written without it

    def _files_to_copy(self) -> list[str]:
        """Sorted files that do not overlap are copied too, which only the worker finds out."""
        groups = [group for group in self._groups.values() if group.mode in ("copy", "merge")]
        return [file.path for group in groups if group.group_id not in self.planned.adopted for file in group.files]

    def _execute(self, engine: Engine, tasks: Sequence[Task]) -> None:
        self.context.emit(StageStarted(Stage.EXECUTE, f"rewriting {plural(len(tasks), 'group')} on {engine.name}"))
        storage = self._access()
        options = self.context.request.options
        attributes = span_attributes([self._groups[task.group_id] for task in tasks])
        schema = self.planned.inventory.pinned.schema
        joining = Joining(self._tasks, schema)
        try:
            with self.context.services.tracer.span("execution", engine=engine.name, **attributes):
                tasks = KeyJoins(self.context, self._joins).resolved(tasks, engine, storage)
                self._tasks.update((task.group_id, task) for task in tasks)
                large = SortedGroups([task for task in tasks if may_be_large(task)], schema, options)
                others = [task for task in tasks if not may_be_large(task)]
                run = engine.run(
                    with_delete_contents(divided(others), storage, per_task=options.inline_delete_size),
                    storage,
                    cancel=self.context.cancel,
                    max_parallelism=options.max_parallelism,
                )
                with closing(run) as results:
                    for result in results:
                        assert isinstance(result, TaskResult)
                        self._progress.trace(result)
                        if (whole := joining.take(result)) is not None:
                            self._take(whole)
                with closing(large.run(engine, storage, self.context.cancel)) as groups:
                    for whole in groups:
                        self._progress.trace(whole)
                        self._take(whole)
        except OutOfTime:
            if self._waiting:
                self._commit_waiting()  # the tasks have stopped, and the reserve of the time budget is for this
            raise
        except BaseException:
            self.settle_seconds = engine.settle_seconds
            raise

    def _access(self) -> RenewedAccess:
        """A long run outlives the credentials that the catalog vends, so it asks for new ones."""

        def renew() -> dict[str, str]:
            table = self.context.catalog.load_table(self.context.request.table.identifier)
            return storage_access(table.io).reveal()

        return RenewedAccess(storage_access(self.planned.table.io).reveal(), renew, self.context.services.now_ms)

    def _take(self, result: TaskResult) -> None:
        """A group has finished. Workers continue with other groups while this one is committed."""
        options, record = self.context.request.options, self.context.record
        if result.group_id not in self.planned.adopted:
            record.save_finished(result, self.context.services.now_ms())
        self._progress.add(result)
        self._check_outputs(len(result.outputs))
        record.raise_if_lost()
        for warning in result.warnings:
            if self.totals.note(warning):
                self.context.warn(warning)
        self._waiting.append(result)
        budget = current_budget()
        is_chunk = options.commit_every is not None and len(self._waiting) >= options.commit_every
        if self._may_commit_in_parts and (is_chunk or (budget is not None and budget.wants_commit())):
            self._commit_waiting()
            record.update(stage=Stage.EXECUTE)

    @property
    def _may_commit_in_parts(self) -> bool:
        """A delete that applies to files of several groups leaves only if their deletes are merged in one commit."""
        return not any(group.keeps_data for group in self._groups.values())

    def _check_outputs(self, outputs: int) -> None:
        """Where rows are sorted into partitions, no plan knows the number of files. So the job counts them."""
        self._outputs += outputs
        most = self.context.request.options.max_output_files
        if self._outputs > most:
            raise TooManyOutputs(
                f"The job wrote {self._outputs:,} files; the limit is {most:,}.",
                hint="Give a larger target_file_size or a filter, or raise limits.max_output_files.",
            )

    def _commit_waiting(self) -> None:
        results = sorted(self._waiting, key=lambda result: result.group_id)
        self._waiting = []
        groups = [self._groups[result.group_id] for result in results]
        self.context.record.check_ownership()  # a job that took over may have removed the outputs: no damage
        tracer = self.context.services.tracer
        with tracer.span("verify", mode=self.context.request.verify.value, groups=len(groups)):
            self._verify(groups, results)
        self.context.cancel.raise_if_cancelled()
        committed: Committed | None = None
        try:
            with tracer.span("commit", **span_attributes(groups)) as span:
                committed = self._publish(groups, results)
                span.set(snapshot_id=committed.snapshot_id, attempts=committed.attempts)
            conflicts = committed.conflicts
        except GroupsConflict as conflict:
            self.context.warn(str(conflict))
            conflicts = conflict.reasons
        if committed is not None:
            record = self.context.record
            record.committed_number = committed.sequence_number
            record.update(
                snapshot_id=committed.snapshot_id,
                commits=record.job.commits + 1,
                commit_retries=record.job.commit_retries + max(0, committed.attempts - 1),
            )
            self.totals.add(groups, results, committed)
        if conflicts:
            self.context.record.update(conflicts=self.context.record.job.conflicts + len(conflicts))
        for group in groups:
            if group.group_id in conflicts:
                self.totals.leave(group, conflicts[group.group_id])
        UncommittedFiles(self.context, self.planned.table).remove_after_commit(results, committed)
        if (budget := current_budget()) is not None:
            budget.note_commit()

    def _verify(self, groups: Sequence[FileGroup], results: Sequence[TaskResult]) -> None:
        request, planned = self.context.request, self.planned
        if request.verify is VerifyMode.OFF:
            self.context.record.update(stage=Stage.VERIFY)
            return
        self.context.stage(Stage.VERIFY, f"verifying {plural(len(groups), 'group')} ({request.verify.value})")
        access = self._access()
        paths_of = DeletePaths(access)
        for group, result in zip(groups, results, strict=True):
            verify_group(group, result, planned.inventory.pinned, planned.plan.deletes, paths_of, access)
        if request.verify is VerifyMode.FULL:
            rewritten = [result for result in results if not self._groups[result.group_id].keeps_data]
            merged = [result for result in results if self._groups[result.group_id].keeps_data]
            if rewritten:
                found = self._run_checks(checksum_tasks(list(self._tasks.values()), rewritten))
                verify_contents(rewritten, [result for result in found if isinstance(result, ChecksumResult)])
            if merged:
                self._verify_survivors(merged)

    def _verify_survivors(self, results: Sequence[TaskResult]) -> None:
        tasks = [self._tasks[result.group_id] for result in results]
        old, new = survivor_tasks(tasks, results, self.planned.plan.sequence_number)
        found = self._run_checks([*old, *new])
        verify_survivors(tasks, [result for result in found if isinstance(result, AuditResult)])

    def _run_checks(self, tasks: Sequence[AnyTask]) -> list[AnyResult]:
        run = self.context.engine().run(
            tasks,
            self._access(),
            cancel=self.context.cancel,
            max_parallelism=self.context.request.options.max_parallelism,
        )
        with closing(run) as found:
            return gathered(found)

    def _publish(self, groups: Sequence[FileGroup], results: Sequence[TaskResult]) -> Committed:
        context, planned, services = self.context, self.planned, self.context.services
        context.stage(Stage.COMMIT, f"committing {plural(len(groups), 'group')}")
        check_outputs(planned.table.io, results)
        self.totals.chunks += 1
        ref, table_uuid = planned.plan.table, planned.plan.table_uuid
        publisher = Publisher(
            CommitLoop(context.catalog, ref, table_uuid, services.retry, context.warn, services.sleep),
            planned.plan,
            job_id=context.record.job.job_id,
            chunk=self.totals.chunks - 1,
            snapshot_id=planned.table.metadata.new_snapshot_id(),
            journal=context.record,
            name_mapping=planned.inventory.pinned.name_mapping,
            cache=services.cache,
            now_ms=services.now_ms,
        )
        return publisher.publish([FinishedGroup(*done) for done in zip(groups, results, strict=True)])


def _joined_intents(open_intent: Intent | None, intent: Intent) -> Intent:
    """Adds what earlier rounds of the job have not cleaned up yet."""
    if open_intent is None:
        return intent
    return replace(
        intent,
        sequence_number=min(open_intent.sequence_number, intent.sequence_number),
        directories={**open_intent.directories, **intent.directories},
        attempts=max(open_intent.attempts, intent.attempts),
        outputs={**open_intent.outputs, **intent.outputs},
        parts={**open_intent.parts, **intent.parts},
        joins={**open_intent.joins, **intent.joins},
        adopted={**open_intent.adopted, **intent.adopted},
    )
