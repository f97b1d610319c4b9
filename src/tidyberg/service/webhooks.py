"""Sends notifications to webhooks. Each webhook has its own thread, so a slow one delays no other."""

import hashlib
import hmac
import json
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass

import httpx

from tidyberg._version import __version__
from tidyberg.model.submission import COMPACT
from tidyberg.settings.notifications import NotifiedEvent, Webhook

log = logging.getLogger(__name__)

MOST_WAITING = 1000  # notifications per webhook; further ones are dropped and counted
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_RETRIED_STATUSES = frozenset({408, 425, 429})
_TITLES: dict[NotifiedEvent, str] = {
    "failed": "failed",
    "given_up": "given up",
    "waiting": "waits too long",
}


@dataclass(frozen=True)
class JobNotification:
    """What happened to a job, without secrets [I12]."""

    event: NotifiedEvent
    at: str
    job_id: str
    table: str
    tenant: str
    status: str
    created_at: str
    attempts: int
    error_code: str | None = None
    error: str | None = None
    kind: str = COMPACT

    def text(self) -> str:
        what = "Compaction" if self.kind == COMPACT else f"Job ({self.kind})"
        lines = [f"{what} {_TITLES[self.event]}: {self.table}", f"job {self.job_id}, tenant {self.tenant}"]
        if self.error:
            lines.append(f"{self.error_code}: {self.error}" if self.error_code else self.error)
        return "\n".join(lines)


class WebhookSender:
    """Sends to one webhook. Calls `count` with the outcome of each notification: sent, failed or dropped."""

    def __init__(self, webhook: Webhook, count: Callable[[str], None]) -> None:
        self._webhook = webhook
        self._count = count
        self._notices: queue.Queue[JobNotification | None] = queue.Queue(MOST_WAITING)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send_all, name="tidyberg-webhook", daemon=True)
        self._thread.start()

    def offer(self, notice: JobNotification) -> None:
        if notice.event not in self._webhook.events:
            return
        if self._webhook.tenants is not None and notice.tenant not in self._webhook.tenants:
            return
        try:
            self._notices.put_nowait(notice)
        except queue.Full:
            self._count("dropped")

    def stop(self, seconds: float) -> None:
        """Tries each queued notification once more within this time, then stops."""
        self._stopping.set()
        try:
            self._notices.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _send_all(self) -> None:
        # No redirects and no proxy from the environment: only the address in the settings is called.
        with httpx.Client(timeout=self._webhook.timeout_seconds, follow_redirects=False, trust_env=False) as client:
            while (notice := self._notices.get()) is not None:
                try:
                    self._count("sent" if self._deliver(client, notice) else "failed")
                except Exception as error:  # noqa: BLE001  # I12: the text may contain the address
                    self._count("failed")
                    log.error("a webhook failed unexpectedly (%s)", type(error).__name__)

    def _deliver(self, client: httpx.Client, notice: JobNotification) -> bool:
        body = render(notice, self._webhook)
        delivery, pause, reason = str(uuid.uuid4()), _FIRST_PAUSE_SECONDS, ""
        for attempt in range(self._webhook.retries + 1):
            if attempt:
                if self._stopping.wait(pause):
                    break
                pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause)
            try:
                headers = _headers(notice, self._webhook, delivery, body)
                status = client.post(self._webhook.url.get_secret_value(), content=body, headers=headers).status_code
            except httpx.HTTPError as error:
                reason = type(error).__name__  # I12: the text may contain the address
                continue
            if 200 <= status < 300:
                return True
            reason = f"status {status}"
            if status < 500 and status not in _RETRIED_STATUSES:
                break
        log.warning("a webhook did not accept the notification of job %s: %s", notice.job_id, reason)
        return False


def render(notice: JobNotification, webhook: Webhook) -> bytes:
    if webhook.format == "slack":
        text = notice.text()
        for mark, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):  # so that a message cannot mention a channel
            text = text.replace(mark, name)
        return json.dumps({"text": text}).encode()
    return json.dumps(asdict(notice)).encode()


def sign(secret: str, timestamp: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _headers(notice: JobNotification, webhook: Webhook, delivery: str, body: bytes) -> dict[str, str]:
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"tidyberg/{__version__}",
        "X-Tidyberg-Event": notice.event,
        "X-Tidyberg-Delivery": delivery,
        "X-Tidyberg-Timestamp": timestamp,
    }
    if webhook.secret is not None:
        headers["X-Tidyberg-Signature"] = sign(webhook.secret.get_secret_value(), timestamp, body)
    return headers
