"""The endpoint of the function on this machine: concurrent invocations, errors and bad requests."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from tests.serverless.functions import function_on
from tests.servers.server import free_port
from tidyberg.serverless.events import LARGEST_BODY
from tidyberg.serverless.local import Handler, LocalFunction, create_app
from tidyberg.testing import Warehouse

PATH = "/2015-03-31/functions/function/invocations"


@contextmanager
def served(handler: Handler, at_once: int = 50) -> Iterator[str]:
    port = free_port()
    app = create_app(LocalFunction(handler, 60.0, 1769, at_once))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}{PATH}"
    finally:
        server.should_exit = True
        thread.join()


def echo(event: Any, context: Any) -> Any:
    return {"event": event, "ms": context.get_remaining_time_in_millis(), "id": context.aws_request_id}


def test_concurrent_invocations_each_get_their_own_answer_and_context() -> None:
    together = threading.Barrier(20)

    def handler(event: Any, context: Any) -> Any:
        together.wait(60)  # all of them run at the same time
        return echo(event, context)

    with served(handler) as url:
        answers: dict[int, Any] = {}

        def call(number: int) -> None:
            answers[number] = httpx.post(url, json={"number": number}, timeout=120).json()

        threads = [threading.Thread(target=call, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {number: answer["event"]["number"] for number, answer in answers.items()} == {n: n for n in range(20)}
    assert len({answer["id"] for answer in answers.values()}) == 20
    assert all(0 < answer["ms"] <= 60_000 for answer in answers.values())


def test_errors_have_the_shape_of_lambda_and_the_next_invocation_works() -> None:
    def handler(event: Any, context: Any) -> Any:
        if event["fail"]:
            raise ValueError("no such thing")
        return echo(event, context)

    with served(handler) as url:
        failed = httpx.post(url, json={"fail": True})
        assert failed.status_code == 200
        assert failed.headers["x-amz-function-error"] == "Unhandled"
        assert failed.json()["errorType"] == "ValueError"
        assert failed.json()["errorMessage"] == "no such thing"
        assert "x-amz-function-error" not in httpx.post(url, json={"fail": False}).headers


def test_bad_requests_do_not_reach_the_handler() -> None:
    seen: list[Any] = []
    with served(lambda event, _: seen.append(event)) as url:
        assert httpx.post(url, content=b"{").status_code == 400
        assert httpx.post(url, content=b"[" * 100_000).status_code == 400
        assert httpx.post(url, content=b'"' + b"x" * LARGEST_BODY + b'"').status_code == 413
        assert httpx.post(url, json={}, headers={"Origin": "https://evil.example"}).status_code == 403
        assert httpx.post(url, json={}, headers={"Host": "evil.example:8080"}).status_code == 403
        assert httpx.post(url, json={}, headers={"X-Amz-Invocation-Type": "DryRun"}).status_code == 204
        assert httpx.get(url).status_code == 405
        assert httpx.post(url.replace("/invocations", ""), json={}).status_code == 404
    assert seen == []


def test_an_asynchronous_invocation_is_accepted_at_once() -> None:
    done = threading.Event()
    with served(lambda event, _: done.wait(60)) as url:
        assert httpx.post(url, json={}, headers={"X-Amz-Invocation-Type": "Event"}).status_code == 202
        done.set()


def test_importing_the_handler_loads_neither_spark_nor_servers(tmp_path: Path) -> None:
    code = "import sys; import tidyberg.serverless.preload; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pyspark", "py4j", "pandas", "grpc", "fastapi", "starlette", "uvicorn", "typer", "rich"}


def test_table_operations_in_the_order_and_form_of_the_testing_guide(warehouse: Warehouse, tmp_path: Path) -> None:
    table = {"tenant_id": "test-tenant", "namespace": "default", "table": "test_users"}
    fields = {"name": {"type": "string", "required": True}, "age": {"type": "integer", "required": False}}
    requests = [
        {"operation": "CREATE_TABLE", **table, "schema": {"fields": fields}, "if_not_exists": True},
        *({"operation": "WRITE", **table, "records": [{"name": f"User-{n}", "age": 20 + n}]} for n in range(1, 6)),
        {"operation": "COMPACT", **table, "force": True, "expire_snapshots": False},
        {"operation": "QUERY", **table, "sql": "SELECT count(*) AS users, sum(age) AS years FROM test_users"},
    ]
    function = function_on(warehouse, tmp_path, TIDYBERG_OPERATIONS__ENABLED="true")
    with function.control, served(function) as url:
        sent = [{"httpMethod": "POST", "path": "/database", "body": json.dumps(request)} for request in requests]
        answers = [json.loads(httpx.post(url, json=event, timeout=120).json()["body"]) for event in sent]
    assert all(answer["success"] for answer in answers), answers
    assert (answers[5]["compaction_recommended"], answers[5]["small_files_count"]) == (True, 5)
    assert (answers[6]["stats"]["files_before"], answers[6]["stats"]["files_after"]) == (5, 1)
    assert answers[7]["records"] == [{"users": 5, "years": 115}]
