"""Jobs that do all that a table needs, by the policy of the settings, the table's properties and the request."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidyberg.catalog.open import load_table
from tidyberg.control.control import Control
from tidyberg.control.maintenance.maintainer import Maintainer, describe
from tidyberg.control.maintenance.request import maintenance_request
from tidyberg.errors import Transient
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.model.left import Outcome
from tidyberg.model.maintenance import MAINTAIN, MaintenancePlan, MaintenanceResult
from tidyberg.model.maintenance_policy import PolicyLayer
from tidyberg.model.submission import Submission
from tidyberg.model.table import TableRef
from tidyberg.record.process import this_process
from tidyberg.service.kinds.base import CheckedRequest, HistoryRemover, RequestScope, RunContext, RunOutcome
from tidyberg.service.request_checks import options_as_asked, refuse_options_of_compactions
from tidyberg.service.requests import SubmitRequest
from tidyberg.settings.job_options import parse_job_options, plain_options
from tidyberg.settings.maintenance import PolicySettings, maintenance_policy
from tidyberg.settings.settings import Settings

REQUEST = "request"  # the origin of values that the request gives


class Maintain(HistoryRemover):
    """Implements JobKind."""

    name = MAINTAIN

    def check(self, request: SubmitRequest, scope: RequestScope) -> CheckedRequest:
        refuse_options_of_compactions(request)
        asked = _policy(options_as_asked(request))
        known = scope.look(False) if not scope.is_schedule else None
        if known is not None:  # a wrong property of the table is reported now, and not when the job runs
            maintenance_policy(scope.settings.maintain, scope.table, known.properties, _layers(asked))
        given = {name: value for name, value in plain_options(asked).items() if value != {}}
        return CheckedRequest(MAINTAIN, given)

    def finished(self, submission: Submission, earlier: Sequence[Job]) -> Job | None:  # noqa: ARG002
        """A run is recorded when all its steps have ended. One that died is repeated: its steps find what is left."""
        return next((run for run in earlier if run.status is JobStatus.SUCCEEDED and run.strategy == MAINTAIN), None)

    def run(self, context: RunContext) -> RunOutcome:
        control, ref = context.control, context.submission.table
        began_ms = control.now_ms()
        table = load_table(control.catalog(ref.catalog), ref)
        asked = _layers(_policy(context.submission.options))
        request = maintenance_request(context.settings, ref, table, asked)
        loop = Maintainer(control, control.now_ms, context.on_event, context.cancel, control.scrub)
        result = loop.run(request)
        failure = result.failure
        changed = any(step.changed for step in result.steps)
        if failure is not None and (not changed or (isinstance(failure, Transient) and not context.is_last)):
            raise failure  # the next attempt does what is left
        job = _record(context, result, str(table.metadata.table_uuid), began_ms)
        context.records.store.save(job)
        return RunOutcome(job, job.outcome or "tidy", failure)


def plan_maintenance(
    control: Control, settings: Settings, ref: TableRef, options: Mapping[str, Any]
) -> MaintenancePlan:
    """Returns what such a job would do, and changes nothing. `options` are those of a checked request."""
    table = load_table(control.catalog(ref.catalog), ref)
    request = maintenance_request(settings, ref, table, _layers(_policy(options)))
    return Maintainer(control, control.now_ms, None, None, control.scrub).plan(request, table)


def _policy(options: Mapping[str, Any]) -> PolicySettings:
    parsed = parse_job_options(MAINTAIN, options)
    assert isinstance(parsed, PolicySettings)
    return parsed


def _layers(asked: PolicySettings) -> tuple[PolicyLayer, ...]:
    return (PolicyLayer(REQUEST, asked.given()),)


def _record(context: RunContext, result: MaintenanceResult, table_uuid: str, began_ms: int) -> Job:
    """Records the run at its end. Each step that ran has a record of its own, by which recovery goes."""
    now_ms, failure = context.control.now_ms(), result.failure
    outcome: Outcome = "tidy" if result.outcome == "nothing" else "committed" if failure is None else "partly"
    return Job(
        job_id=context.run_id,
        table=result.table,
        table_uuid=table_uuid,
        branch="",
        strategy=MAINTAIN,
        options=dict(context.submission.options),
        status=JobStatus.SUCCEEDED,
        stage=Stage.DONE,
        engine="",
        created_ms=began_ms,
        started_ms=began_ms,
        finished_ms=now_ms,
        heartbeat_ms=now_ms,
        owner=this_process(),
        outcome=outcome,
        notes=(*result.policy.notes, *(f"{step.step}: {describe(step)}" for step in result.steps)),
        error_code=failure.code if failure is not None else None,
        error=context.control.scrub(str(failure)) if failure is not None else None,
        submission_id=context.submission.job_id,
    )
