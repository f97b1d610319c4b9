"""Webhooks report jobs that failed or wait too long, without delaying jobs."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from tests.builders.services import Failing, ended, settings_of, submit, untidy_table, until
from tidyberg.app import build_service
from tidyberg.errors import CatalogUnreachable, VerificationFailed
from tidyberg.model.job import JobStatus
from tidyberg.service.service import Service
from tidyberg.service.webhooks import sign
from tidyberg.settings.notifications import Notifications, Webhook
from tidyberg.testing import Warehouse


@dataclass
class Receiver:
    """A webhook that records requests and answers as configured."""

    url: str = ""
    answers: list[int] = field(default_factory=list)  # then 200
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()
    kept.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.hold.wait(30)
            kept.got.append((self.path, dict(self.headers.items()), body))
            status = kept.answers.pop(0) if kept.answers else 200
            self.send_response(status)
            if status == 307:
                self.send_header("Location", f"{kept.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        kept.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kept
        kept.hold.set()
        server.shutdown()
        thread.join()


@contextmanager
def serving(warehouse: Warehouse, *webhooks: Webhook, waiting: float = 3600, **queue: Any) -> Iterator[Service]:
    reported = Notifications(webhooks=webhooks, waiting_seconds=waiting)
    service = build_service(settings_of(warehouse, **queue).model_copy(update={"notifications": reported}))
    yield service
    service.stop()


def hook(receiver: Receiver, **more: Any) -> Webhook:
    return Webhook.model_validate({"url": f"{receiver.url}/hook?token=hunter22", **more})


def counted(service: Service, outcome: str) -> bool | None:
    return f'notifications_total{{outcome="{outcome}"}} 1\n' in service.metrics.render().decode() or None


def test_failed_job_sends_a_signed_notification(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    untidy_table(warehouse)
    with serving(warehouse, hook(receiver, secret="shared")) as service:
        monkeypatch.setattr(service.control, "compact", Failing(service.control, VerificationFailed("Rows differ.")))
        service.start()
        job = submit(service)
        until(lambda: receiver.got or None)
    (path, headers, body), *rest = receiver.got
    assert not rest
    assert path == "/hook?token=hunter22"
    notice = json.loads(body)
    assert (notice["event"], notice["job_id"], notice["table"]) == ("failed", job.job_id, "lab.db.events")
    assert (notice["error_code"], notice["error"]) == ("verification-failed", "Rows differ.")
    assert headers["X-Tidyberg-Event"] == "failed"
    assert headers["X-Tidyberg-Signature"] == sign("shared", headers["X-Tidyberg-Timestamp"], body)


def test_job_without_attempts_left_sends_given_up(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    untidy_table(warehouse)
    with serving(warehouse, hook(receiver, events=["given_up"], format="slack"), max_attempts=2) as service:
        down = [CatalogUnreachable("<!channel> is down & out.")] * 2
        monkeypatch.setattr(service.control, "compact", Failing(service.control, *down, VerificationFailed("No.")))
        service.start()
        job = submit(service)
        until(lambda: receiver.got or None)
        ended(service, submit(service).job_id)
    (message,) = receiver.documents()
    assert set(message) == {"text"}
    assert message["text"].startswith(f"Compaction given up: lab.db.events\njob {job.job_id}")
    assert "&lt;!channel&gt; is down &amp; out." in message["text"], "nobody can mention a channel through an error"


def test_long_waiting_job_is_reported_once_over_all_replicas(warehouse: Warehouse, receiver: Receiver) -> None:
    untidy_table(warehouse)
    with (
        serving(warehouse, hook(receiver), waiting=1.5, workers=0) as one,
        serving(warehouse, hook(receiver), waiting=1.5, workers=0) as other,
    ):
        job = submit(one)
        one.notifier.look_for_waiting()
        assert not receiver.got, "not yet"
        time.sleep(1.6)
        for service in (one, other, one):
            service.notifier.look_for_waiting()
        until(lambda: receiver.got or None)
        time.sleep(0.2)
    assert [(notice["event"], notice["job_id"]) for notice in receiver.documents()] == [("waiting", job.job_id)]


def test_refused_notification_is_retried_with_the_same_delivery_id(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidyberg.service.webhooks._FIRST_PAUSE_SECONDS", 0.01)
    receiver.answers = [503, 429]
    untidy_table(warehouse)
    with serving(warehouse, hook(receiver)) as service:
        service.notifier.notify("failed", submit(service))
        until(lambda: counted(service, "sent"))
    assert len(receiver.got) == 3
    assert len({headers["X-Tidyberg-Delivery"] for _, headers, _ in receiver.got}) == 1


def test_redirects_and_proxies_are_ignored(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    receiver.answers = [307, 200]
    untidy_table(warehouse)
    with serving(warehouse, hook(receiver)) as service:
        service.notifier.notify("failed", submit(service))
        until(lambda: counted(service, "failed"))
    assert [path for path, _, _ in receiver.got] == ["/hook?token=hunter22"]
    assert "hunter22" not in caplog.text, "I12"


def test_hanging_webhook_delays_no_job(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.hold.clear()
    untidy_table(warehouse)
    with serving(warehouse, hook(receiver), workers=1) as service:
        monkeypatch.setattr(service.control, "compact", Failing(service.control, VerificationFailed("Rows differ.")))
        service.start()
        assert ended(service, submit(service).job_id).status is JobStatus.FAILED
        assert ended(service, submit(service).job_id).status is JobStatus.SUCCEEDED
        receiver.hold.set()


def test_webhook_gets_only_its_tenants(warehouse: Warehouse, receiver: Receiver) -> None:
    untidy_table(warehouse)
    with serving(warehouse, hook(receiver, tenants=["sales"]), hook(receiver, tenants=["default"])) as service:
        service.notifier.notify("failed", submit(service))
        until(lambda: receiver.got or None)
    assert len(receiver.got) == 1


@pytest.mark.parametrize("url", ["ftp://x/y", "file:///etc/passwd", "hooks.example.com", "http://[x"])
def test_invalid_webhook_address_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Webhook(url=SecretStr(f"{url}?token=hunter22"))
    assert "hunter22" not in str(refused.value)


def test_webhook_address_is_never_shown(receiver: Receiver) -> None:
    reported = Notifications(webhooks=(hook(receiver, secret="shared"),))
    assert "hunter22" not in repr(reported) + reported.model_dump_json()
    assert "shared" not in repr(reported) + reported.model_dump_json()
