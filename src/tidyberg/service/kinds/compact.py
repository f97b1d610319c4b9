"""Jobs that compact a table, or run a plan that was made before."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidyberg.errors import BadPredicate, UnknownPlan
from tidyberg.model.job import Job
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.principal import Role
from tidyberg.model.report import CompactionResult
from tidyberg.model.submission import COMPACT, Submission
from tidyberg.planning.document import plan_from_json
from tidyberg.planning.predicate import parse_predicate
from tidyberg.service.earlier_runs import successful_run
from tidyberg.service.kinds.base import CheckedRequest, RequestScope, RunContext, RunOutcome
from tidyberg.service.request_checks import check_plan_options, options_as_asked
from tidyberg.service.requests import SubmitRequest
from tidyberg.settings.options import plan_options


class Compact:
    """Implements JobKind."""

    name = COMPACT
    least_role = Role.OPERATOR
    is_planned = True

    def rights(self, options: Mapping[str, Any]) -> frozenset[str]:  # noqa: ARG002
        return frozenset((COMPACT,))

    def check(self, request: SubmitRequest, scope: RequestScope) -> CheckedRequest:
        """Also checks the options against the columns, partition fields and properties of the table, if known."""
        asked = options_as_asked(request)
        options = plan_options(scope.settings, scope.table, asked)
        _check_with_table(options, scope)
        verify = VerifyMode.parse(request.verify).value if request.verify is not None else None
        return CheckedRequest(options.strategy.value, asked, verify)

    def finished(self, submission: Submission, earlier: Sequence[Job]) -> Job | None:  # noqa: ARG002
        return successful_run(earlier)

    def run(self, context: RunContext) -> RunOutcome:
        result = _compact(context)
        return RunOutcome(result.job, result.outcome, result.failure, result.sizes_written)


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
