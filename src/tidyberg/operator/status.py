"""The status of a policy, as plain data for the API of Kubernetes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic.alias_generators import to_camel

from tidyberg.client import Job, Schedule
from tidyberg.errors import TidybergError, Transient
from tidyberg.operator.service import Debt

READY = "Ready"


@dataclass(frozen=True)
class PolicyCondition:
    """Says that the service has the schedule of the policy, or why it has not."""

    ready: bool
    reason: str
    message: str

    @staticmethod
    def of_schedule(schedule: Schedule) -> "PolicyCondition":
        if schedule.enabled:
            return PolicyCondition(True, "Scheduled", f"The service runs {schedule.schedule_id!r}.")
        return PolicyCondition(True, "Suspended", f"The service keeps {schedule.schedule_id!r} and does not run it.")

    @staticmethod
    def of_error(error: TidybergError) -> "PolicyCondition":
        return PolicyCondition(False, "Unavailable" if isinstance(error, Transient) else "Refused", str(error))


def conditions(
    before: Sequence[Mapping[str, Any]], now: datetime, generation: int, found: PolicyCondition
) -> list[Any]:
    """Returns the condition Ready. Its time changes only when the condition becomes true or false."""
    status = "True" if found.ready else "False"
    old = next((one for one in before if one.get("type") == READY), None)
    since = old["lastTransitionTime"] if old is not None and old.get("status") == status else moment(now)
    return [
        {
            "type": READY,
            "status": status,
            "reason": found.reason,
            "message": found.message,
            "lastTransitionTime": since,
            "observedGeneration": generation,
        }
    ]


def last_run(job: Job) -> dict[str, Any]:
    return {
        "jobId": job.job_id,
        "table": job.identifier,
        "status": job.status.value,
        "outcome": job.outcome,
        "startedAt": moment(job.started_at),
        "finishedAt": moment(job.finished_at),
        "message": job.error.message if job.error is not None else None,
    }


def debt_status(debt: Debt) -> dict[str, Any]:
    plain = {to_camel(name): value for name, value in asdict(debt).items()}
    return {**plain, "reasons": list(debt.reasons)}


def moment(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parts of `after` that differ, so that an unchanged status is not written again.

    A merge patch with null removes a key, so null and absent mean the same.
    """
    return {key: value for key, value in after.items() if _without_nulls(before.get(key)) != _without_nulls(value)}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value
