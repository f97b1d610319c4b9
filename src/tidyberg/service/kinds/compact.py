"""Jobs that compact a table, or run a plan that was made before."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidyberg.control.then_expire import expiry_after, with_totals
from tidyberg.errors import BadPredicate, Cancelled, TidybergError, Transient, UnknownPlan
from tidyberg.model.expiry import EXPIRE
from tidyberg.model.job import Job
from tidyberg.model.left import Outcome
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.principal import Role
from tidyberg.model.report import CompactionResult
from tidyberg.model.submission import COMPACT, Submission
from tidyberg.planning.document import plan_from_json
from tidyberg.planning.predicate import parse_predicate
from tidyberg.service.earlier_runs import has_committed, successful_run
from tidyberg.service.kinds.base import CheckedRequest, RequestScope, RunContext, RunOutcome
from tidyberg.service.kinds.expire import Expire, sent_before
from tidyberg.service.request_checks import check_plan_options, options_as_asked
from tidyberg.service.requests import SubmitRequest
from tidyberg.settings.options import parse_options, plan_options


class Compact:
    """Implements JobKind."""

    name = COMPACT
    least_role = Role.OPERATOR
    is_planned = True

    def rights(self, options: Mapping[str, Any]) -> frozenset[str]:
        """A caller that expires snapshots, or says which ones, needs the right for that too."""
        asked = parse_options({key: value for key, value in options.items() if value is not None})
        expires = asked.get("expire_snapshots") or "snapshot_retention_hours" in asked
        return frozenset((COMPACT, EXPIRE) if expires else (COMPACT,))

    def check(self, request: SubmitRequest, scope: RequestScope) -> CheckedRequest:
        """Also checks the options against the columns, partition fields and properties of the table, if known."""
        asked = options_as_asked(request)
        options = plan_options(scope.settings, scope.table, asked)
        _check_with_table(options, scope)
        verify = VerifyMode.parse(request.verify).value if request.verify is not None else None
        return CheckedRequest(options.strategy.value, asked, verify)

    def finished(self, submission: Submission, earlier: Sequence[Job]) -> Job | None:  # noqa: ARG002
        done = _compaction(earlier)
        return done if done is not None and not _misses_expiry(done) else None

    def run(self, context: RunContext) -> RunOutcome:
        done = _compaction(context.earlier)
        if done is not None:
            return _expire(context, done)
        result = _compact(context)
        failure = result.failure
        if failure is not None and result.job.error_code is None and _misses_expiry(result.job):
            _retry_later(context, failure)
        has_changed = result.has_committed or bool(result.stats.snapshots_expired)
        outcome: Outcome = "partly" if failure is not None and has_changed else result.outcome
        return RunOutcome(result.job, outcome, failure, result.sizes_written)


def _compaction(earlier: Sequence[Job]) -> Job | None:
    """Returns an earlier run that compacted the table. Its snapshots may still have to expire."""
    return successful_run([run for run in earlier if run.is_compaction])


def _misses_expiry(run: Job) -> bool:
    return bool(run.options.get("expire_snapshots")) and run.expired is None


def _expire(context: RunContext, done: Job) -> RunOutcome:
    """Expires the snapshots of a compaction that ended in an earlier attempt."""
    landed = Expire().finished(context.submission, [run for run in context.earlier if not run.is_compaction])
    if landed is not None and landed.expired is not None:
        job = with_totals(done, landed.expired)
        context.records.store.save(job)
        return RunOutcome(job, "partly" if landed.outcome == "partly" else job.outcome or "committed")
    asked = PlanOptions(expire_snapshots=True, snapshot_retention_hours=done.options.get("snapshot_retention_hours"))
    options = expiry_after(asked)
    assert options is not None
    try:
        result = context.control.expire_after(
            done, options, on_event=context.on_event, cancel=context.cancel, sent_before=sent_before(context.earlier)
        )
    except Cancelled:
        raise
    except TidybergError as error:
        if not has_committed(done):
            raise
        _retry_later(context, error)
        return RunOutcome(done, "partly", error)
    job = context.records.store.get(done.job_id) or done
    return RunOutcome(job, "partly" if result.failure else job.outcome or "committed", result.failure)


def _retry_later(context: RunContext, error: TidybergError) -> None:
    """Raises a transient error, so that the next attempt expires the snapshots. The compaction is not repeated."""
    if isinstance(error, Transient) and not context.is_last:
        raise error


def _check_with_table(options: PlanOptions, scope: RequestScope) -> None:
    known = scope.look(False)
    if options.where is not None and known is not None:
        try:
            parse_predicate(options.where, known.schema, scope.now_ms, known.fields)
        except BadPredicate:  # the cached schema may lack a new column
            if (known := scope.look(True)) is not None:
                parse_predicate(options.where, known.schema, scope.now_ms, known.fields)
    if known is None:
        check_plan_options(options)
    else:
        check_plan_options(options, known.schema, known.properties)


def _compact(context: RunContext) -> CompactionResult:
    submission, control = context.submission, context.control
    common: dict[str, Any] = {
        "verify": VerifyMode(submission.verify) if submission.verify else context.settings.verify,
        "on_event": context.on_event,
        "cancel": context.cancel,
        "job_id": context.run_id,
        "submission_id": submission.job_id,
    }
    if submission.plan_hash is None:
        asked = {**submission.options, "strategy": submission.strategy}
        return control.compact(submission.table, plan_options(context.settings, submission.table, asked), **common)
    kept = context.records.ledger.kept_plan(submission.plan_hash)
    if kept is None:
        raise UnknownPlan(f"The plan {submission.plan_hash} is no longer kept.", hint="Make a new plan.")
    return control.apply(plan_from_json(kept.document), **common)
