"""HTTP events of API Gateway (version 1 and 2) and of direct invocations reach table operations, or a clear answer."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.serverless.functions import FakeContext, function_on
from tidyberg.execute.time_budget import current_budget
from tidyberg.serverless.events import LARGEST_BODY
from tidyberg.serverless.function import Function
from tidyberg.testing import Warehouse

QUERY = {"operation": "QUERY", "tenant_id": "blue"}


@dataclass(frozen=True)
class RecordedAnswer:
    status: int
    body: dict[str, Any]


@dataclass
class RecordingOperations:
    """Table operations that answer what they were asked."""

    answer: RecordedAnswer = field(default_factory=lambda: RecordedAnswer(200, {"success": True}))
    calls: list[tuple[dict[str, Any], str | None]] = field(default_factory=list)
    seconds_left: float = 0.0

    def handle(self, body: Mapping[str, Any], tenant: str | None) -> RecordedAnswer:
        self.calls.append((dict(body), tenant))
        budget = current_budget()
        assert budget is not None, "compactions of table operations stop in time too"
        self.seconds_left = budget.seconds_left
        return self.answer

    def health(self) -> RecordedAnswer:
        return RecordedAnswer(200, {"status": "healthy"})


@pytest.fixture
def operations() -> RecordingOperations:
    return RecordingOperations()


@pytest.fixture
def function(warehouse: Warehouse, tmp_path: Path, operations: RecordingOperations) -> Iterator[Function]:
    made = function_on(warehouse, tmp_path)
    made._operations = operations
    with made.control:
        yield made


def direct(**more: Any) -> dict[str, Any]:
    return {"httpMethod": "POST", "path": "/database", "body": json.dumps(QUERY), **more}


def version_2(path: str = "/prod/database", **request: Any) -> dict[str, Any]:
    context = {"http": {"method": "POST", "path": path}, "stage": "prod", **request}
    return {"version": "2.0", "rawPath": path, "requestContext": context, "body": json.dumps(QUERY)}


def send(function: Function, event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    answer = function(event, FakeContext())
    assert answer["headers"] == {"Content-Type": "application/json"}
    assert answer["isBase64Encoded"] is False
    return answer["statusCode"], json.loads(answer["body"])


def test_a_direct_invocation_may_name_any_tenant(function: Function, operations: RecordingOperations) -> None:
    assert send(function, direct()) == (200, {"success": True})
    assert operations.calls == [(QUERY, None)]
    assert operations.seconds_left == 50.0


def test_a_body_may_be_base64(function: Function, operations: RecordingOperations) -> None:
    encoded = base64.b64encode(json.dumps(QUERY).encode()).decode()
    assert send(function, direct(body=encoded, isBase64Encoded=True))[0] == 200
    assert operations.calls == [(QUERY, None)]


@pytest.mark.parametrize(
    "event",
    [
        direct(requestContext={"authorizer": {"claims": {"tenant_id": "red"}}}),
        direct(requestContext={"authorizer": {"tenant_id": "red", "principalId": "me"}}),
        version_2(authorizer={"jwt": {"claims": {"tenant_id": "red"}}}),
        version_2(authorizer={"lambda": {"tenant_id": "red"}}),
    ],
)
def test_the_authorizer_decides_the_tenant_whatever_the_body_says(
    function: Function, operations: RecordingOperations, event: dict[str, Any]
) -> None:
    assert send(function, event)[0] == 200
    assert operations.calls == [(QUERY, "red")]


@pytest.mark.parametrize(
    "event",
    [
        direct(requestContext={"identity": {"userArn": "arn:aws:iam::1:user/me"}}),
        version_2(authorizer={"iam": {"userArn": "arn:aws:iam::1:user/me"}}),
    ],
)
def test_a_caller_that_iam_has_checked_may_name_any_tenant(
    function: Function, operations: RecordingOperations, event: dict[str, Any]
) -> None:
    assert send(function, event)[0] == 200
    assert operations.calls == [(QUERY, None)]


@pytest.mark.parametrize(
    ("event", "status", "code"),
    [
        (direct(requestContext={"stage": "prod"}), 401, "not-authenticated"),
        (version_2(), 401, "not-authenticated"),
        (version_2(authorizer={}), 401, "not-authenticated"),
        (version_2(authorizer={"jwt": {"claims": {"sub": "me"}}}), 403, "access-denied"),
        (version_2(authorizer={"jwt": {"claims": {"tenant_id": ["red"]}}}), 403, "access-denied"),
        (version_2(authorizer={"lambda": {"tenant_id": ""}}), 403, "access-denied"),
        (direct(httpMethod="PUT"), 405, "method-not-allowed"),
        (direct(path="/elsewhere"), 404, "not-found"),
        (direct(body=None), 422, "bad-input"),
        (direct(body=""), 422, "bad-input"),
        (direct(body=QUERY), 422, "bad-input"),
        (direct(body="{"), 422, "bad-input"),
        (direct(body="[1]"), 422, "bad-input"),
        (direct(body='{"a": NaN}'), 422, "bad-input"),
        (direct(body='{"a": 1, "a": 2}'), 422, "bad-input"),
        (direct(body='{"a":' * 100 + "1" + "}" * 100), 422, "bad-input"),
        (direct(body="[" * 100_000), 422, "bad-input"),
        (direct(body="not base64", isBase64Encoded=True), 422, "bad-input"),
        (direct(body="/w==", isBase64Encoded=True), 422, "bad-input"),
        (direct(isBase64Encoded="yes"), 422, "bad-input"),
        (direct(path=None), 422, "bad-input"),
        (direct(httpMethod=7), 422, "bad-input"),
        (direct(body=f'{{"a": "{"x" * LARGEST_BODY}"}}'), 413, "body-too-large"),
    ],
)
def test_malformed_and_foreign_requests_get_a_clear_answer_and_reach_no_table(
    function: Function, operations: RecordingOperations, event: dict[str, Any], status: int, code: str
) -> None:
    found, body = send(function, event)
    assert (found, body["code"]) == (status, code)
    assert body["success"] is False
    assert body["error"]
    assert operations.calls == []


def test_health_needs_no_identity(function: Function) -> None:
    event = {"httpMethod": "GET", "path": "/health", "requestContext": {"stage": "prod"}}
    assert send(function, event) == (200, {"status": "healthy"})


def test_an_answer_that_lambda_would_refuse_becomes_an_error(
    function: Function, operations: RecordingOperations
) -> None:
    operations.answer = RecordedAnswer(200, {"rows": ["x" * LARGEST_BODY]})
    status, body = send(function, direct())
    assert (status, body["code"]) == (413, "body-too-large")


def test_a_defect_is_answered_without_secrets(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(RecordingOperations):
        def handle(self, body: Mapping[str, Any], tenant: str | None) -> RecordedAnswer:
            raise RuntimeError("no way with swordfish")

    monkeypatch.setenv("LAKE_TOKEN", "swordfish")
    made = function_on(warehouse, tmp_path)
    made._operations = Broken()
    with made.control:
        status, body = send(made, direct())
    assert (status, body["code"]) == (500, "error")
    assert "RuntimeError" in body["error"]
    assert "swordfish" not in body["error"]


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"key1": "value1"},
        {"source": "aws.s3", "detail-type": "Object Created", "detail": {"bucket": {"name": "lake"}}},
        {"source": "aws.s3", "detail-type": "Object Created"},
        {"source": "aws.events", "detail-type": "Scheduled Event", "detail": ["db.sales"]},
        {"tables": "db.sales"},
        {"tables": [1]},
        {"tables": [" "]},
        {"tables": ["db.sales"], "kind": "vacuum"},
        {"tables": ["db.sales"], "kind": 1},
        {"tables": ["db.sales"], "options": []},
        {"tables": ["db.sales"], "catalog": 3},
    ],
)
def test_events_of_other_kinds_are_refused(function: Function, event: dict[str, Any]) -> None:
    from tidyberg.errors import BadInput

    with pytest.raises(BadInput):
        function(event, FakeContext())
