"""Notifies webhooks about jobs that failed or wait too long. Each job is reported once, by one replica."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Query, Submission
from tidyberg.record.process import this_process
from tidyberg.record.records import Records
from tidyberg.service.webhooks import JobNotification, WebhookSender
from tidyberg.settings.notifications import Notifications, NotifiedEvent

LOOK_SECONDS = 30.0
STOP_SECONDS = 5.0
_TURN = "tidyberg:notifications"  # the lease of the replica that looks for waiting jobs
_TURN_MS = 120_000
_REACHED = "tidyberg:notified-waiting"  # in the ledger: waiting jobs up to this time were reported
_PAGE = 100


@dataclass
class Notifier:
    settings: Notifications
    records: Records
    now_ms: Callable[[], int]
    count: Callable[[str], None] = lambda _: None
    scrub: Callable[[str], str] = lambda text: text  # I12
    _holder: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self._senders = [WebhookSender(webhook, self.count) for webhook in self.settings.webhooks]

    def notify(self, event: NotifiedEvent, job: Submission) -> None:
        """Queues a notification. Never blocks and never raises, because workers call it."""
        if not self._senders:
            return
        notice = JobNotification(
            event=event,
            at=_text(self.now_ms()),
            job_id=job.job_id,
            table=f"{job.table.catalog}.{job.table}",
            tenant=job.tenant,
            status=job.status.value,
            created_at=_text(job.created_ms),
            attempts=job.attempts,
            error_code=job.error_code,
            error=self.scrub(job.error) if job.error else None,
            kind=job.kind,
        )
        for sender in self._senders:
            sender.offer(notice)

    def look_for_waiting(self) -> None:
        if not any("waiting" in webhook.events for webhook in self.settings.webhooks) or not self._has_turn():
            return
        reached = self.records.ledger.last_due(_REACHED) or 0
        latest = self.now_ms() - round(self.settings.waiting_seconds * 1000)
        query = Query(
            statuses=frozenset({JobStatus.QUEUED}), created_from_ms=reached + 1, newest_first=False, limit=_PAGE
        )
        for job in self.records.queue.submissions(query).submissions:
            if job.created_ms > latest:
                break
            if job.created_ms > reached:
                self.records.ledger.advance(_REACHED, job.created_ms)
            self.notify("waiting", job)

    def stop(self) -> None:
        for sender in self._senders:
            sender.stop(STOP_SECONDS)

    def _has_turn(self) -> bool:
        now_ms = self.now_ms()
        return self.records.store.acquire(_TURN, self._holder, this_process(), now_ms=now_ms, ttl_ms=_TURN_MS) is None


def _text(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
