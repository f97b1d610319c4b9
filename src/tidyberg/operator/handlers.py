"""The handlers of kopf: they reconcile one policy when it changes and once in a while, and write its status."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import kopf

from tidyberg.errors import BadInput, TidybergError, Transient
from tidyberg.operator.policies import GROUP, POLICY_KINDS, VERSION, PolicyKind, PolicyName, wanted_schedule
from tidyberg.operator.service import ScheduleService
from tidyberg.operator.status import PolicyCondition, changes, conditions, debt_status, last_run, moment

FINALIZER = f"{GROUP}/schedule"
# Settings of the service or its keys must change first, which takes people minutes.
_REFUSED_RETRY_SECONDS = 60.0
_LEAST_LIST_SECONDS = 5.0
_LOOKS_PER_LIST = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OperatorOptions:
    cluster: str = "kubernetes"
    every_seconds: float = 60.0  # how often each policy is compared with the service
    debt_every_seconds: float = 600.0  # how often the tables of a policy are measured
    retry_seconds: float = 10.0  # the wait after the service did not answer


@dataclass(frozen=True)
class Policies:
    """The handlers of all kinds of policies. Every handler may run again after a crash at any point."""

    service: ScheduleService
    options: OperatorOptions

    def register(self, registry: kopf.OperatorRegistry) -> None:
        kopf.on.startup(registry=registry)(self.configure)
        kopf.on.login(registry=registry)(log_in)
        for kind in POLICY_KINDS:
            self._register(registry, kind)

    async def configure(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = FINALIZER
        # The status has a schema, so kopf keeps its own notes in annotations.
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
        settings.posting.level = logging.WARNING
        settings.networking.request_timeout = 30.0
        # All policies are listed again after this time, so that a lost event delays a change and never loses it.
        settings.watching.client_timeout = max(_LEAST_LIST_SECONDS, _LOOKS_PER_LIST * self.options.every_seconds)

    def _register(self, registry: kopf.OperatorRegistry, kind: PolicyKind) -> None:
        where: Any = {"group": GROUP, "version": VERSION, "plural": kind.plural, "registry": registry}
        every = self.options.every_seconds

        async def changed(**arguments: Any) -> None:
            await self._change(kind, arguments)

        async def deleted(**arguments: Any) -> None:
            await self._delete(kind, arguments)

        async def looked_at(**arguments: Any) -> None:
            await self._look(kind, arguments)

        kopf.on.resume(id="reconcile", **where)(changed)
        kopf.on.create(id="reconcile", **where)(changed)
        kopf.on.update(id="reconcile", field="spec", **where)(changed)
        kopf.on.delete(id="delete", **where)(deleted)
        kopf.timer(id="look", interval=every, initial_delay=every, **where)(looked_at)

    async def _change(self, kind: PolicyKind, arguments: Mapping[str, Any]) -> None:
        """Reconciles a new or changed policy. Errors that may pass are tried again by kopf."""
        async with _lock(arguments["memo"]):
            error = await self._reconcile(kind, arguments)
        if isinstance(error, BadInput):
            raise kopf.PermanentError(str(error))
        if error is not None:
            again = self.options.retry_seconds if isinstance(error, Transient) else _REFUSED_RETRY_SECONDS
            raise kopf.TemporaryError(str(error), delay=again)

    async def _look(self, kind: PolicyKind, arguments: Mapping[str, Any]) -> None:
        """Reconciles again, so that a schedule that somebody else changed comes back, and renews the status."""
        async with _lock(arguments["memo"]):
            # A policy that is being deleted must not get its schedule back.
            if arguments["meta"].get("deletionTimestamp") is None and not arguments["memo"].get("deleted"):
                await self._reconcile(kind, arguments)

    async def _delete(self, kind: PolicyKind, arguments: Mapping[str, Any]) -> None:
        """Removes the schedule. The finalizer keeps the policy until that has worked."""
        async with _lock(arguments["memo"]):
            arguments["memo"]["deleted"] = True
            try:
                await self.service.remove(self._name(kind, arguments).schedule_id)
            except TidybergError as error:
                raise kopf.TemporaryError(str(error), delay=self.options.retry_seconds) from None

    async def _reconcile(self, kind: PolicyKind, arguments: Mapping[str, Any]) -> TidybergError | None:
        """Makes the service have the schedule, and writes the status. Returns the error that prevented it."""
        before = arguments["status"]
        generation = arguments["meta"].get("generation", 0)
        status: dict[str, Any] = {"observedGeneration": generation}
        failure: TidybergError | None = None
        try:
            status |= await self._schedule(self._name(kind, arguments), arguments)
            condition = status.pop("condition")
        except TidybergError as error:
            failure, condition = error, PolicyCondition.of_error(error)
            _log.warning("%s %s/%s: %s", kind.name, arguments["namespace"], arguments["name"], error)
        now = datetime.now(UTC)
        status["conditions"] = conditions(before.get("conditions", ()), now, generation, condition)
        arguments["patch"].status.update(changes(before, status))
        return failure

    async def _schedule(self, name: PolicyName, arguments: Mapping[str, Any]) -> dict[str, Any]:
        wanted = wanted_schedule(name, arguments["spec"])
        schedule, fingerprint = await self.service.ensure(wanted, arguments["status"].get("fingerprint"))
        status: dict[str, Any] = {
            "scheduleId": schedule.schedule_id,
            "fingerprint": fingerprint,
            "nextRun": moment(schedule.next_due),
            "condition": PolicyCondition.of_schedule(schedule),
        }
        # The schedule stands. What follows is only shown, so an error of it does not make the policy unready.
        with suppress(TidybergError):
            if (job := await self.service.latest_job(schedule.schedule_id)) is not None:
                status["lastRun"] = last_run(job)
            if self._is_time_to_measure(arguments["memo"]) and (debt := await self.service.debt(schedule)) is not None:
                status["debt"] = debt_status(debt)
        return status

    def _is_time_to_measure(self, memo: Any) -> bool:
        now = asyncio.get_running_loop().time()
        measured = memo.get("measured")
        if measured is not None and now - measured < self.options.debt_every_seconds:
            return False
        memo["measured"] = now
        return True

    def _name(self, kind: PolicyKind, arguments: Mapping[str, Any]) -> PolicyName:
        return PolicyName(self.options.cluster, kind, str(arguments["namespace"]), str(arguments["name"]))


def _lock(memo: Any) -> asyncio.Lock:
    """Returns the lock of one policy. Handlers of kopf wait for each other, but its timers run beside them."""
    lock: asyncio.Lock = memo.setdefault("lock", asyncio.Lock())
    return lock


def log_in(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Uses the service account of the pod, or the kubeconfig of a person who runs the operator elsewhere."""
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
