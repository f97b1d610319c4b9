"""One job: it holds the table, recovers dead jobs, plans, runs rounds, and records its outcome."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.open import load_table
from tidyberg.control.context import JobContext, JobPolicy, JobRequest, Services
from tidyberg.control.dead_jobs import DeadJobs
from tidyberg.control.engines import EngineChoice
from tidyberg.control.held_table import open_lease, require_new_id
from tidyberg.control.journal import JobRecord
from tidyberg.control.lease import Lease
from tidyberg.control.outcome import JobOutcome, JobTotals
from tidyberg.control.planner import Planner
from tidyberg.control.recovery import DIED
from tidyberg.control.resume import adopt_from_dead_jobs
from tidyberg.control.round import PlannedTable, Round
from tidyberg.control.uncommitted_files import UncommittedFiles
from tidyberg.errors import Cancelled, CommitStateUnknown, Conflict, TableReplaced, TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import JobStatus, Stage
from tidyberg.model.plan import FileGroup
from tidyberg.model.report import CompactionResult, EventSink, Notice
from tidyberg.model.words import plural
from tidyberg.record.process import this_process


@dataclass(frozen=True)
class CompactionJob:
    request: JobRequest
    services: Services
    policy: JobPolicy
    catalog: Catalog
    engine: EngineChoice
    planner: Planner
    dead_jobs: DeadJobs

    def run(self, emit: EventSink, cancel: CancelToken) -> CompactionResult:
        """Waits for the table, holds it with a lease, and does the work."""
        stop = CancelToken()  # the job also stops when it loses its table
        cancel.add_callback(stop.cancel)
        table = load_table(self.catalog, self.request.table)
        job = self.request.new_job(str(table.metadata.table_uuid), this_process(), self.services.now_ms())
        with open_lease(job, self.services, self.policy, stop) as lease:
            require_new_id(job, self.services)
            record = JobRecord(self.services.store, job, lease, self.services.scrub)
            context = JobContext(self.request, self.services, self.catalog, record, self.engine, emit, stop)
            try:
                # Another job may have changed the table while this one waited.
                result = JobWork(self, context).run(None if lease.waited else table)
            except BaseException as error:
                self._record_failure(record, error)
                if lease.lost:
                    self._recover_late(context, lease)
                    if isinstance(error, Cancelled):
                        raise record.cause_of(error) from error
                raise
            self._recover_late(context, lease)
            return result

    def _record_failure(self, record: JobRecord, error: BaseException) -> None:
        if isinstance(error, Cancelled):
            status = JobStatus.CANCELLED
        elif record.job.commits:
            status = JobStatus.SUCCEEDED  # its commits stand
        elif isinstance(error, KeyboardInterrupt):
            status = JobStatus.CANCELLED
        else:
            status = JobStatus.FAILED
        record.update(
            status=status,
            finished_ms=self.services.now_ms(),
            # The job may have failed after it adopted the groups of a dead job and before it continued them.
            unresolved=record.job.unresolved
            or (record.job.intent is not None and bool(record.job.intent.groups or record.job.intent.joins)),
            error_code=error.code if isinstance(error, TidybergError) else type(error).__name__,
            error=str(error) or type(error).__name__,
        )

    def _recover_late(self, context: JobContext, lease: Lease) -> None:
        """Recovers jobs that had lost this table and woke up meanwhile, or this job if it has lost the table."""
        try:
            report = self.dead_jobs.recover_again(context.record) if lease.lost else self._recover_others(context)
        except TidybergError as error:  # must not hide how the job itself ended
            report = f"other jobs of {self.request.table} could not be recovered: {error}"
        if report:
            context.emit(Notice("info", report))

    def _recover_others(self, context: JobContext) -> str:
        job, recovery = context.record.job, context.recovery()
        others = self.services.store.find(table=job.table, unfinished=True, limit=1000)
        late = [other for other in others if other.job_id != job.job_id and other.table_uuid == job.table_uuid]
        return "; ".join(recovery.recover(self.catalog, other) for other in late)


@dataclass
class JobWork:
    """The stages of a job while it holds its table."""

    job: CompactionJob
    context: JobContext
    _totals: JobTotals = field(init=False)
    _round: Round = field(init=False)

    def run(self, table: Table | None) -> CompactionResult:
        """`table` is None if it must be loaded again."""
        planned = self.prepare(table)
        self.context.engine.choose(planned.plan)
        self._totals = JobTotals(planned.inventory)
        self._round = Round(self.context, planned, self._totals)
        outcome, record = JobOutcome(self.context, planned.plan, self._totals), self.context.record
        try:
            self._run_rounds(planned)
        except CommitStateUnknown:
            record.update(unresolved=True, **outcome.so_far())
            raise
        except TidybergError as error:
            self._undo(planned.table)
            failure = record.cause_of(error)
            if isinstance(failure, Cancelled):
                record.update(**outcome.so_far())
                raise
            if self._totals.commits:
                return outcome.finish(failure)  # the commits stand
            if failure is error:
                raise
            raise failure from error
        except BaseException:
            if record.job.sent is None:
                self._undo(planned.table)
            else:  # interrupted during a commit: recovery finds out whether it landed
                record.update(unresolved=True)
            record.update(**outcome.so_far())
            raise
        return outcome.finish(None)

    def prepare(self, table: Table | None) -> PlannedTable:
        """Observes the table and recovers dead jobs. Then plans, or continues what a dead job had finished."""
        context, planner, policy = self.context, self.job.planner, self.job.policy
        record, request = context.record, context.request
        context.stage(Stage.OBSERVE, f"reading the manifests of {request.table}")
        table = table or self._load_same()
        inventory = planner.observe(table, request.table, request.options)
        record.update(stage=Stage.RECOVER)
        adopted = adopt_from_dead_jobs(context, inventory, policy.max_output_age_ms)
        record.update(stage=Stage.PLAN)
        after_death = self._is_after_death()
        if adopted is not None:
            return PlannedTable(table, inventory, adopted.plan, adopted.results, after_death)
        plan = request.plan or planner.plan(inventory, request.options)
        return PlannedTable(table, inventory, plan, after_death=after_death)

    def plan_again(self, left: Sequence[FileGroup], first_group: int) -> PlannedTable:
        """Plans for the partitions of these groups, within the share of the job's limits that they had."""
        context, planner, options = self.context, self.job.planner, self.context.request.options
        context.stage(Stage.OBSERVE, f"planning {plural(len(left), 'group')} again that conflicted")
        table = self._load_same()
        inventory = planner.observe(table, context.request.table, options)
        if options.max_files is not None:
            options = replace(options, max_files=sum(len(group.files) for group in left))
        if options.max_cost is not None:
            options = replace(options, max_cost=sum(group.estimate.dollars for group in left))
        partitions = frozenset((group.spec_id, group.partition_path) for group in left)
        plan = planner.plan(inventory, options, only=partitions, first_group=first_group)
        return PlannedTable(table, inventory, plan)

    def _run_rounds(self, planned: PlannedTable) -> None:
        """Runs the plan, and new plans for groups that conflicted. A given plan is never planned again."""
        totals = self._totals
        self._round.run()
        next_group = max((group.group_id for group in planned.plan.groups), default=-1) + 1
        for _ in range(self.job.policy.replans if self.context.request.plan is None else 0):
            if not totals.left:
                break
            again = self.plan_again([left.group for left in totals.left.values()], next_group)
            next_group += len(again.plan.groups)
            totals.hand_over(again.plan)
            if again.plan.is_empty:
                break
            self._round = Round(self.context, again, totals)
            self._round.run()
        if totals.left and not totals.commits:
            first = next(iter(totals.left.values())).reason
            raise Conflict(
                f"Other writers changed every group of {planned.plan.table} meanwhile: {first}.",
                hint="Plan again.",
            )

    def _is_after_death(self) -> bool:
        """Returns True if the last job of the table died. A damaged file may have killed it: Arrow can crash on one."""
        job, store = self.context.record.job, self.job.services.store
        last = [other for other in store.find(table=job.table, limit=2) if other.job_id != job.job_id]
        return bool(last) and last[0].error_code == DIED

    def _load_same(self) -> Table:
        """Refuses another table that was created under the same name."""
        job = self.context.record.job
        table = load_table(self.context.catalog, job.table)
        if str(table.metadata.table_uuid) != job.table_uuid:
            raise TableReplaced(f"{job.table} was dropped and created again meanwhile.", hint="Try again.")
        return table

    def _undo(self, table: Table) -> None:
        UncommittedFiles(self.context, table).remove_after_failure(self._round.settle_seconds)
