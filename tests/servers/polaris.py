"""The policy API of Apache Polaris in front of a REST catalog, as far as clients read it.

Polaris itself is not started here: its server comes as an image, and several of its artifacts (polaris-runtime-common,
polaris-runtime-defaults, polaris-api-catalog-service 1.4.1) did not resolve with Maven. This server follows its
specification (spec/polaris-catalog-apis/policy-apis.yaml) and the rules of its class PolicyCatalog: a policy that is
attached closer to the table replaces one of the same type from above. The Iceberg endpoints and the policy API share
one address and one token. The client of PyPI's apache-polaris 1.8.0, which is generated from that specification, reads
the answers of this server. Unlike Polaris, it does not check contents, and its pages can be small.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers.server import ClosedAtExit

BASE = "/api/catalog"  # where Polaris has its catalogs
PREFIX = "lake"
TOKEN = "secret-of-the-principal"
APPLICABLE = "GET /polaris/v1/{prefix}/applicable-policies"
_ICEBERG = ("GET /v1/{prefix}/namespaces", "GET /v1/{prefix}/namespaces/{namespace}", "POST /v1/{prefix}/namespaces",
            "GET /v1/{prefix}/namespaces/{namespace}/tables", "POST /v1/{prefix}/namespaces/{namespace}/tables",
            "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
            "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}")  # fmt: skip
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass(frozen=True)
class StoredPolicy:
    policy_type: str
    name: str
    content: str | None
    namespace: tuple[str, ...] = ("rules",)  # where it is stored
    version: int = 0
    inheritable: bool = True


def stored(policy_type: str, name: str, **content: Any) -> StoredPolicy:
    """A policy with a content of the present schema version."""
    return StoredPolicy(policy_type, name, json.dumps({"version": "2025-02-03", **content}))


@dataclass(frozen=True)
class FixedAnswer:
    """An answer of the policy API in place of the right one."""

    status: int
    body: bytes
    delay_seconds: float = 0.0


def error_answer(status: int, kind: str, message: str = "told by the server") -> FixedAnswer:
    return FixedAnswer(status, json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode())


@dataclass
class PolicyStore:
    """The policies by the path of what they are attached to: (), a namespace, or a table."""

    attached: dict[tuple[str, ...], list[StoredPolicy]] = field(default_factory=dict)

    def attach(self, path: tuple[str, ...], *policies: StoredPolicy) -> None:
        self.attached.setdefault(path, []).extend(policies)

    def applicable(self, path: tuple[str, ...]) -> list[tuple[StoredPolicy, bool]]:
        """Returns each policy, and whether it is inherited."""
        inheritable: dict[str, tuple[StoredPolicy, bool]] = {}
        others: list[tuple[StoredPolicy, bool]] = []
        for depth in range(len(path) + 1):
            is_target = depth == len(path)
            for policy in self.attached.get(path[:depth], ()):
                if policy.inheritable:
                    inheritable[policy.policy_type] = (policy, not is_target)
                elif is_target:
                    others.append((policy, False))
        return [*others, *inheritable.values()]


class PolarisServer(ClosedAtExit):
    """Answers the policy API itself, and passes requests of the Iceberg API on to another REST catalog."""

    def __init__(self, upstream_port: int | None = None, *, has_policy_api: bool = True) -> None:
        self.store = PolicyStore()
        self.has_policy_api = has_policy_api
        self.page_size = 100
        self.never_ends = False  # the last page names itself as the next one
        self.answer_instead: FixedAnswer | None = None
        self.asked: list[dict[str, str]] = []  # the parameters of each request to the policy API
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, upstream_port))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="polaris")
        self._thread.start()
        self.uri = f"http://127.0.0.1:{self._server.server_port}{BASE}"

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "rest", "uri": self.uri, "token": TOKEN}

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def config(self) -> dict[str, Any]:
        endpoints = [*_ICEBERG, *([APPLICABLE] if self.has_policy_api else [])]
        return {"defaults": {}, "overrides": {"prefix": PREFIX}, "endpoints": endpoints}

    def page(self, asked: dict[str, str]) -> dict[str, Any]:
        path = (*asked["namespace"].split("\x1f"), asked["target-name"])
        found = self.store.applicable(path)
        begin = int(asked.get("pageToken") or 0)
        end = begin + min(self.page_size, int(asked["pageSize"]))
        answer: dict[str, Any] = {"applicable-policies": [_as_json(*each) for each in found[begin:end]]}
        if end < len(found):
            answer["next-page-token"] = str(end)
        elif self.never_ends:
            answer["next-page-token"] = str(begin)
        return answer


def _as_json(policy: StoredPolicy, inherited: bool) -> dict[str, Any]:
    return {
        "policy-type": policy.policy_type,
        "inheritable": policy.inheritable,
        "name": policy.name,
        "description": None,
        "content": policy.content,
        "version": policy.version,
        "inherited": inherited,
        "namespace": list(policy.namespace),
    }


def _handler(server: PolarisServer, upstream_port: int | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            address = urlsplit(self.path)
            try:
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    self.answer(error_answer(401, "NotAuthorizedException", "the token is wrong"))
                elif address.path == f"{BASE}/v1/config":
                    self.answer(FixedAnswer(200, json.dumps(server.config()).encode()))
                elif address.path == f"{BASE}/polaris/v1/{PREFIX}/applicable-policies":
                    self.policies(address.query)
                elif upstream_port is not None and address.path.startswith(f"{BASE}/v1/{PREFIX}/"):
                    self.forward(upstream_port, body)
                else:
                    self.answer(error_answer(404, "NotFoundException"))
            except ConnectionError:
                self.close_connection = True  # the client gave up first

        def __getattr__(self, name: str) -> Callable[[], None]:
            if name.startswith("do_"):  # how the base class asks for the handler of a method
                return self.handle_any
            raise AttributeError(name)

        def policies(self, query: str) -> None:
            asked = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
            server.asked.append(asked)
            if server.answer_instead is not None:
                time.sleep(server.answer_instead.delay_seconds)
                self.answer(server.answer_instead)
            else:
                self.answer(FixedAnswer(200, json.dumps(server.page(asked)).encode()))

        def forward(self, port: int, body: bytes) -> None:
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
                path = self.path.replace(f"{BASE}/v1/{PREFIX}/", "/v1/", 1)
                upstream.request(self.command, path, body or None, headers)
                answer = upstream.getresponse()
                self.answer(FixedAnswer(answer.status, answer.read()), answer.getheaders())
            finally:
                upstream.close()

        def answer(self, answer: FixedAnswer, headers: list[tuple[str, str]] | None = None) -> None:
            self.send_response(answer.status)
            for name, value in headers if headers is not None else [("Content-Type", "application/json")]:
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    return Handler
