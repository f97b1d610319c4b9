"""Limits how many jobs a tenant may queue and submit, over all replicas.

A replica reads the store at most once a second per tenant, and counts its own admissions in between. So all replicas
together may exceed a quota by the jobs that other replicas admit within that second.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidyberg.errors import QuotaExceeded
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Query
from tidyberg.model.words import plural
from tidyberg.record.queue import JobQueue
from tidyberg.settings.access import Tenant

MINUTE_MS = 60_000
LOOK_EVERY_MS = 1_000
LOOK_AGAIN_MS = 100  # before a refusal, because jobs may have started since
PAGE = 500


@dataclass
class _QuotaUsage:
    """The counts from the store, and the jobs admitted since."""

    at_ms: int
    queued: int
    submitted: int  # within the last minute
    admitted: int = 0


@dataclass
class Quotas:
    tenants: Mapping[str, Tenant]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looks: dict[str, _QuotaUsage] = field(default_factory=dict)

    def admit(self, tenant: str, queue: JobQueue, now_ms: int) -> None:
        quota = self.tenants.get(tenant)
        if quota is None or (quota.max_queued is None and quota.submissions_per_minute is None):
            return
        with self._lock:
            look = self._look(tenant, quota, queue, now_ms, LOOK_EVERY_MS)
            if _refusal(tenant, quota, look) is not None:
                look = self._look(tenant, quota, queue, now_ms, LOOK_AGAIN_MS)
            if (refusal := _refusal(tenant, quota, look)) is not None:
                raise refusal
            look.admitted += 1

    def _look(self, tenant: str, quota: Tenant, queue: JobQueue, now_ms: int, every_ms: int) -> _QuotaUsage:
        found = self._looks.get(tenant)
        if found is None or not 0 <= now_ms - found.at_ms < every_ms:
            queued = queue.counts().get((tenant, JobStatus.QUEUED), 0) if quota.max_queued is not None else 0
            found = self._looks[tenant] = _QuotaUsage(now_ms, queued, _submitted(tenant, quota, queue, now_ms))
        return found


def _submitted(tenant: str, quota: Tenant, queue: JobQueue, now_ms: int) -> int:
    """Counts the submissions of the last minute, up to the quota."""
    most = quota.submissions_per_minute or 0
    found, cursor = 0, None
    while found < most:
        page = queue.submissions(
            Query(
                tenants=frozenset((tenant,)),
                created_from_ms=now_ms - MINUTE_MS + 1,
                limit=min(PAGE, most - found),
                cursor=cursor,
            )
        )
        found += len(page.submissions)
        if (cursor := page.next) is None:
            break
    return found


def _refusal(tenant: str, quota: Tenant, look: _QuotaUsage) -> QuotaExceeded | None:
    if quota.max_queued is not None and look.queued + look.admitted >= quota.max_queued:
        return QuotaExceeded(
            f"Tenant {tenant!r} has {plural(quota.max_queued, 'job')} waiting, which is its limit.",
            hint="Try again when some have finished, or cancel some.",
        )
    if quota.submissions_per_minute is not None and look.submitted + look.admitted >= quota.submissions_per_minute:
        return QuotaExceeded(
            f"Tenant {tenant!r} has submitted {plural(quota.submissions_per_minute, 'job')} within a minute,"
            " which is its limit.",
            hint="Try again in a minute.",
        )
    return None
