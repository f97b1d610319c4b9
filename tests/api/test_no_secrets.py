"""I12: no secret of the service appears in a response, a log line, a metric or the store."""

import io
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.provider import OTHER_RSA_KEY, Provider
from tests.builders.api import bearer, serving
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.errors import StorageError, TidybergError
from tidyberg.execute.inline import InlineEngine
from tidyberg.service.service import Service
from tidyberg.settings.access import hash_key, new_key
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.logs import JsonLines, known_secrets
from tidyberg.testing import Warehouse

ADMIN, STRANGER = new_key(), new_key()
MARK = "hunter2"  # part of every secret of the settings


class Babbler(BaseHTTPRequestHandler):
    """A catalog whose errors quote the request, including credentials."""

    def do_GET(self) -> None:
        quoted = f"refused {self.path} with {dict(self.headers)}"
        is_config = self.path.startswith("/v1/config")
        error = {"error": {"message": quoted, "type": "BadRequest", "code": 400}}
        content = json.dumps({"defaults": {}, "overrides": {}} if is_config else error).encode()
        self.send_response(200 if is_config else 400)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


def secret_settings(warehouse: Warehouse, babbler: str, provider: Provider, directory: Path) -> dict[str, Any]:
    return {
        "engine": "inline",
        "default_catalog": "lake",
        "catalogs": {
            "lake": {
                **warehouse.properties,
                "token": "hunter2-token",
                "s3.secret-access-key": "hunter2-s3",
                "adls.account-key": "hunter2-adls",
                "properties": {"client.session-token": "hunter2-session"},
            },
            "babbler": {"type": "rest", "uri": babbler, "token": "hunter2-babbled"},
            "gone": {
                "type": "rest",
                "uri": "http://user:hunter2-uri@127.0.0.1:9",
                "oauth2-server-uri": "http://127.0.0.1:9/tokens",
                "credential": "id:hunter2-client",
            },
        },
        "storage": {"bucket": "b", "access_key_id": "hunter2-id", "secret_access_key": "hunter2-storage"},
        "spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": "hunter2-spark"}},
        "store": {"path": str(directory / "jobs.db")},
        "queue": {"max_attempts": 1, "poll_seconds": 0.05},
        "http_timeout_seconds": 2,
        "access": {
            "api_keys": [{"name": "ada", "hash": hash_key(ADMIN), "role": "admin"}],
            "oidc": {"issuer": provider.issuer, "audience": "tidyberg"},
        },
    }


class World:
    """A service with secrets everywhere, and all of its output."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.provider = Provider()
        stack.callback(self.provider.close)
        babbler = ThreadingHTTPServer(("127.0.0.1", 0), Babbler)
        threading.Thread(target=babbler.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        stack.callback(babbler.server_close)
        stack.callback(babbler.shutdown)
        warehouse = stack.enter_context(Warehouse(directory / "lake", name="lake"))
        for table in ("public.events", "public.others", "public.failing"):
            warehouse.append_files(warehouse.create_table(table), 6, 5)
        address = f"http://127.0.0.1:{babbler.server_address[1]}"
        self.settings = Settings.model_validate(secret_settings(warehouse, address, self.provider, directory))
        self.said: list[str] = []
        self.logged = io.StringIO()
        self._log_everything(stack)
        self.service: Service = build_service(self.settings)
        self.service.start()
        stack.callback(self.service.stop)
        served = stack.enter_context(serving(create_app(self.service)))
        self.client = stack.enter_context(httpx.Client(base_url=served, timeout=30))

    def _log_everything(self, stack: ExitStack) -> None:
        """Sets up logging as the service does, at the lowest level."""
        handler = logging.StreamHandler(self.logged)
        handler.setFormatter(JsonLines(known_secrets(self.settings, {})))
        levels = {None: logging.WARNING, "tidyberg": logging.DEBUG, "uvicorn": logging.DEBUG}
        for name, level in levels.items():
            logger = logging.getLogger(name)
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(level)
        logging.getLogger().addHandler(handler)
        stack.callback(logging.getLogger().removeHandler, handler)

    def ask(self, method: str, path: str, *, key: str = ADMIN, headers: Any = None, **more: Any) -> httpx.Response:
        answer = self.client.request(method, path, headers={**bearer(key), **(headers or {})}, **more)
        self.said.append(f"{method} {path}: {answer.status_code} {answer.headers} {answer.text}")
        return answer

    def run(self, table: str, catalog: str = "lake", **more: Any) -> dict[str, Any]:
        job = self.ask("POST", "/api/v1/compact", json={"table": table, "catalog": catalog, **more}).json()
        while True:
            found: dict[str, Any] = self.ask("GET", f"/api/v1/jobs/{job['job_id']}").json()
            if found["status"] in ("succeeded", "failed", "cancelled"):
                self.ask("GET", f"/api/v1/jobs/{job['job_id']}/events")
                return found
            time.sleep(0.05)

    def everything(self) -> str:
        """Returns all responses, all log lines and every byte of the store."""
        kept = [path.read_bytes().decode("latin-1") for path in self.directory.glob("jobs.db*")]
        return "\n".join((*self.said, self.logged.getvalue(), *kept))


def leaks(world: World, secret: str = MARK) -> list[str]:
    """Returns the places of a secret, with their context."""
    reported = world.everything()
    found = (match.start() for match in re.finditer(re.escape(secret), reported))
    return [reported[max(0, at - 200) : at + 100] for at in islice(found, 5)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("world"), stack)


def look_at_everything(world: World) -> None:
    for path in ("/openapi.json", "/docs", "/metrics", "/health", "/health/ready", "/api/v1/audit", "/api/v1/jobs",
                 "/api/v1/tables", "/api/v1/schedules"):  # fmt: skip
        world.ask("GET", path)


def test_no_secret_appears_if_all_succeeds(world: World) -> None:
    assert world.run("public.events")["status"] == "succeeded"
    plan = world.ask("POST", "/api/v1/plan", json={"table": "public.others"}).json()
    assert world.ask("POST", f"/api/v1/plans/{plan['plan_hash']}/apply").status_code == 202
    world.ask("GET", "/api/v1/tables/lake/public/events/health")
    world.ask("PUT", "/api/v1/schedules/a", json={"cron": "0 0 * * *", "table": "public.events"})
    look_at_everything(world)
    reported = world.everything()
    assert "compaction_jobs_total" in reported
    assert leaks(world) == []
    assert leaks(world, ADMIN) == []


def test_no_secret_appears_if_a_catalog_error_quotes_the_request(world: World) -> None:
    for catalog in ("babbler", "gone"):
        for method, path, body in (
            ("POST", "/api/v1/compact", {"table": "a.b", "catalog": catalog}),
            ("POST", "/api/v1/compact", {"table": "b", "catalog": catalog}),
            ("POST", "/api/v1/plan", {"table": "a.b", "catalog": catalog}),
            ("GET", f"/api/v1/tables?catalog={catalog}", None),
            ("GET", f"/api/v1/tables/{catalog}/a/b/health", None),
        ):
            world.ask(method, path, json=body)
    look_at_everything(world)
    assert "babbler" in world.everything()
    assert leaks(world) == []


@pytest.mark.parametrize(
    "failure",
    [
        lambda: RuntimeError("InvalidAccessKeyId hunter2-id, fs.s3a.secret.key=hunter2-spark"),
        lambda: StorageError("403 for hunter2-s3 and hunter2-adls"),
        lambda: TidybergError("Could not use hunter2-storage.", hint="Try hunter2-session or hunter2-token."),
        lambda: RuntimeError("no client has the secret hunter2-client or the password hunter2-uri"),
        lambda: OSError("http://user:hunter2-uri@127.0.0.1:9 said no to id:hunter2-client"),
    ],
)
def test_no_secret_appears_if_a_job_error_quotes_secrets(
    world: World, monkeypatch: pytest.MonkeyPatch, failure: Callable[[], Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure()

    monkeypatch.setattr(InlineEngine, "run", fail)
    assert world.run("public.failing")["status"] == "failed"
    monkeypatch.setattr(world.service.control, "health", fail)
    world.ask("GET", "/api/v1/tables/lake/public/events/health")
    look_at_everything(world)
    assert leaks(world) == []


def test_credentials_of_callers_never_appear(world: World) -> None:
    tokens = [
        STRANGER,
        world.provider.token(exp=1),
        world.provider.token(OTHER_RSA_KEY),
        world.provider.token(roles=[]),
        "aaaa.hunter2.bbbb",
        "hunter2 hunter2",
    ]
    for token in tokens:
        world.ask("GET", "/api/v1/jobs", key=token)
        world.ask("POST", "/api/v1/compact", key=token, json={"table": "public.events"})
        world.client.get("/api/v1/jobs", headers={"X-API-Key": token})
        for path in ("/api/v1/jobs", "/api/v1/nothing", "/health"):
            world.ask("GET", path, params={"token": token, "access_token": token})
            world.ask("GET", path, headers={"Cookie": f"session={token}", "Authorization": f"Basic {token}"})
    for body in ({"table": "public.events", "token": "hunter2"}, {"table": {"password": "hunter2"}},
                 {"table": "public.events", "options": {"credential": "hunter2"}}, ["hunter2"], "hunter2"):  # fmt: skip
        assert world.ask("POST", "/api/v1/compact", json=body).is_client_error
    world.ask("POST", "/api/v1/compact", content=b'{"token": "hunter2', headers={"Content-Type": "application/json"})
    look_at_everything(world)
    reported = world.everything()
    assert "was refused" in reported
    for secret in (MARK, *tokens[:4]):
        assert leaks(world, secret) == []


def test_no_secret_appears_if_redis_is_down(tmp_path: Path) -> None:
    settings = Settings.model_validate({"store": {"url": "redis://:hunter2@127.0.0.1:1/0"}, "engine": "inline"})
    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger().addHandler(handler)
    try:
        with pytest.raises(TidybergError) as caught:
            build_service(settings).records.queue.counts()
    finally:
        logging.getLogger().removeHandler(handler)
    assert MARK not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {logged.getvalue()}"
