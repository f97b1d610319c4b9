"""One job that rewrites manifests: it holds the table, plans, commits, and removes what no snapshot references."""

from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import load_table
from tidyberg.commit.cleanup import referenced_paths, remove
from tidyberg.commit.manifest_publish import ManifestPublisher, PublishedManifests
from tidyberg.commit.manifest_snapshot import ManifestRewrite, ManifestStager
from tidyberg.commit.new_snapshot import last_sequence_number
from tidyberg.commit.ownership import Ownership
from tidyberg.control.context import JobPolicy, Services
from tidyberg.control.dead_jobs import DeadJobs
from tidyberg.control.held_table import HeldTable, HoldRequest, hold_table
from tidyberg.control.manifest_plan import ManifestPlanner, PreparedManifests
from tidyberg.errors import CommitStateUnknown, TableReplaced, TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Intent, Stage
from tidyberg.model.manifest_rewrite import REWRITE_MANIFESTS, ManifestOptions, ManifestPlan, ManifestRewriteResult
from tidyberg.model.report import EventSink, Notice
from tidyberg.model.sizes import format_size
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural


@dataclass(frozen=True)
class ManifestRequest:
    table: TableRef
    options: ManifestOptions
    job_id: str  # no job has had it before


@dataclass(frozen=True)
class ManifestJob:
    request: ManifestRequest
    services: Services
    policy: JobPolicy
    catalog: Catalog
    dead_jobs: DeadJobs

    def plan(self, cancel: CancelToken) -> ManifestPlan:
        """Says what `run` would do, and whether it pays. Changes nothing, and takes no lease."""
        table = load_table(self.catalog, self.request.table)
        with catalog_errors(self.request.table.catalog, what=str(self.request.table)):
            return self.planner(cancel).prepare(table).plan

    def run(self, emit: EventSink, cancel: CancelToken) -> ManifestRewriteResult:
        """Rewrites the manifests if it pays, or if it is forced."""
        request = self.request
        asked = HoldRequest(
            request.table, request.job_id, REWRITE_MANIFESTS, request.options.as_options(), request.options.branch
        )
        with hold_table(asked, self.services, self.policy, self.catalog, emit, cancel) as held:

            def recover_again() -> None:
                if said := self.dead_jobs.recover_again(held.record):
                    emit(Notice("info", said))

            held.when_lost(recover_again)
            return ManifestWork(self, held).run()

    def planner(self, cancel: CancelToken) -> ManifestPlanner:
        return ManifestPlanner(
            self.request.table, self.request.options, self.services.prices, cancel.raise_if_cancelled
        )


@dataclass
class ManifestWork:
    """The stages of a manifest rewrite while it holds its table."""

    job: ManifestJob
    held: HeldTable
    _plan: ManifestPlan | None = None  # the last one

    def run(self) -> ManifestRewriteResult:
        request = self.job.request
        recovered = self.held.recover_dead_jobs(REWRITE_MANIFESTS)
        table = self.held.table
        if table is None or recovered:
            table = self.held.load()
        self.held.stage(Stage.OBSERVE, f"reading the manifests of {request.table}")
        prepared = self._prepare(table)
        if prepared.rewrite is None or not prepared.plan.pays:
            return self._finish(ManifestRewriteResult(prepared.plan, "nothing", recovered=recovered))
        published = self._commit(table, prepared)
        assert self._plan is not None
        if published is None:
            return self._finish(ManifestRewriteResult(self._plan, "nothing", recovered=recovered))
        return self._finish(
            ManifestRewriteResult(
                self._plan,
                "rewritten",
                snapshot_id=published.snapshot_id,
                created=published.created,
                replaced=published.replaced,
                kept=published.kept,
                entries=published.entries,
                bytes_written=published.bytes_written,
                attempts=published.attempts,
                recovered=recovered,
            )
        )

    def _prepare(self, table: Table) -> PreparedManifests:
        with catalog_errors(self.job.request.table.catalog, what=str(self.job.request.table)):
            prepared = self.job.planner(self.held.cancel).prepare(table)
        self._plan = prepared.plan
        return prepared

    def _commit(self, table: Table, prepared: PreparedManifests) -> PublishedManifests | None:
        assert prepared.rewrite is not None
        plan, record, services = prepared.plan, self.held.record, self.job.services
        record.update(
            predicted_dollars=plan.dollars,
            predicted_bytes=plan.bytes_after,
            # Recorded before the first byte is written: recovery then looks at what this job has noted.
            intent=Intent(
                job_id=record.job.job_id,
                sequence_number=last_sequence_number(table.metadata),
                directories={},
                attempts=0,
                outputs={},
                settle_seconds=0.0,
            ),
        )
        self.held.stage(
            Stage.COMMIT,
            f"writing {plural(plan.created, 'manifest')} in place of {plan.replaced:,}, with {plan.entries:,} entries",
        )
        branch = self.job.request.options.branch
        publisher = ManifestPublisher(
            self.held.commit_loop(),
            branch,
            ManifestStager(
                record.job.job_id,
                branch,
                table.metadata.new_snapshot_id(),
                record.about_to_write,
                self.held.cancel.raise_if_cancelled,
                services.now_ms,
            ),
            record,
            plan_again=self._plan_again,
            refusal=self.job.planner(self.held.cancel).refusal,
            replans=self.job.policy.replans,
        )
        try:
            published = publisher.publish(prepared.rewrite)
        except CommitStateUnknown:
            record.update(unresolved=True)
            raise
        except TidybergError:
            self._remove_uncommitted()
            raise
        if published is not None:
            record.committed_number = published.sequence_number
            record.update(commits=1, snapshot_id=published.snapshot_id, commit_retries=max(0, published.attempts - 1))
        if published is None or published.attempts > 1:
            self._remove_uncommitted()
        else:
            record.conclude(())
            record.update(intent=None)
        return published

    def _plan_again(self, table: Table) -> ManifestRewrite | None:
        prepared = self._prepare(table)
        return prepared.rewrite if prepared.plan.pays else None

    def _remove_uncommitted(self) -> None:
        """Removes files of attempts that lost. Recovery removes what cannot be removed now."""
        try:
            problem = self._removed()
        except Exception as error:  # noqa: BLE001  # must not hide how the commit ended
            problem = str(error)
        if problem:
            self.held.warn(f"files are left for `tidyberg recover`: {problem}")
            self.held.record.update(unresolved=True)
        else:
            self.held.record.conclude(())
            self.held.record.update(intent=None)

    def _removed(self) -> str | None:
        """Removes every file of the job that no snapshot references. Returns what went wrong, if anything."""
        record = self.held.record
        assert record.job.intent is not None
        if not record.may_delete():
            return "another job took over the table"
        try:
            fresh = self.held.load()
        except (NoSuchTableError, TableReplaced):
            return "the table is gone or renamed, and some of them may be committed"
        if not self._shows_our_commit(fresh):
            return "the catalog does not show the job's commit"
        noted = record.noted_paths()
        unreferenced = set(noted) - referenced_paths(fresh, noted, record.job.intent.sequence_number)
        ownership = Ownership.of(fresh, record.job.job_id)
        refused = remove(fresh.io, unreferenced, record.job.intent, ownership).refused
        return f"{len(refused)} could not be removed, first {refused[0][0]}: {refused[0][1]}" if refused else None

    def _shows_our_commit(self, fresh: Table) -> bool:
        """A catalog with a cache may show an older state, which does not reference the commit's files."""
        job, number = self.held.record.job, self.held.record.committed_number
        if number is not None and last_sequence_number(fresh.metadata) >= number:
            return True  # even if the commit's snapshot has expired since
        return not job.commits or fresh.metadata.snapshot_by_id(job.snapshot_id or -1) is not None

    def _finish(self, result: ManifestRewriteResult) -> ManifestRewriteResult:
        return replace(result, job=self.held.finish(in_words(result)))


def in_words(result: ManifestRewriteResult) -> str:
    if result.outcome == "nothing":
        return f"manifests not rewritten: {result.plan.reason}"
    return (
        f"{plural(result.replaced, 'manifest')} replaced by {result.created:,} with {result.entries:,} entries, "
        f"{format_size(result.bytes_written)} written"
    )
