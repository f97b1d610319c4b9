"""Jobs that expire snapshots and delete the files that no other snapshot needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidyberg.control.control import Control
from tidyberg.errors import BadInput
from tidyberg.model.expiry import EXPIRE, ExpiryResult
from tidyberg.model.job import Job, JobStatus
from tidyberg.model.submission import Submission
from tidyberg.model.table import TableRef
from tidyberg.planning.expiry import check_allowed
from tidyberg.service.kinds.base import CheckedRequest, HistoryRemover, RequestScope, RunContext, RunOutcome
from tidyberg.service.request_checks import options_as_asked, refuse_options_of_compactions
from tidyberg.service.requests import SubmitRequest
from tidyberg.settings.job_options import ExpireJobOptions, check_repeatable, parse_job_options, plain_options


class Expire(HistoryRemover):
    """Implements JobKind."""

    name = EXPIRE

    def check(self, request: SubmitRequest, scope: RequestScope) -> CheckedRequest:
        refuse_options_of_compactions(request)
        options = _options(options_as_asked(request))
        if scope.is_schedule:
            try:
                check_repeatable(options)
            except ValueError as error:
                raise BadInput(f"{error}.") from None
        if (known := scope.look(False)) is not None:
            check_allowed(known.properties)
        return CheckedRequest(EXPIRE, plain_options(options))

    def finished(self, submission: Submission, earlier: Sequence[Job]) -> Job | None:  # noqa: ARG002
        """A run that expired snapshots counts even if storage did not delete all files: recovery tries again."""
        done = [run for run in earlier if run.status is JobStatus.SUCCEEDED and run.expired is not None]
        return next((run for run in done if run.outcome != "tidy"), done[0] if done else None)

    def run(self, context: RunContext) -> RunOutcome:
        submission = context.submission
        result = context.control.expire(
            submission.table,
            _options(submission.options).to_options(),
            on_event=context.on_event,
            cancel=context.cancel,
            job_id=context.run_id,
            submission_id=submission.job_id,
            sent_before=sent_before(context.earlier),
        )
        assert result.job is not None, "every run is recorded"
        assert result.job.outcome is not None
        return RunOutcome(result.job, result.job.outcome, result.failure)


def plan_expiry(control: Control, table: TableRef, options: Mapping[str, Any]) -> ExpiryResult:
    """Returns what such a job would do, and changes nothing. `options` are those of a checked request."""
    return control.expire(table, _options(options).to_options(), dry_run=True)


def sent_before(earlier: Sequence[Job]) -> frozenset[int]:
    """Returns the snapshots that these runs may have expired. A job that names one of them does not miss it."""
    sent = (run.expiry for run in earlier if run.expiry is not None and run.expiry.sent_from is not None)
    return frozenset(number for record in sent for number in record.snapshot_ids)


def _options(given: Mapping[str, Any]) -> ExpireJobOptions:
    options = parse_job_options(EXPIRE, given)
    assert isinstance(options, ExpireJobOptions)
    return options
