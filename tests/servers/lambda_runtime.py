"""AWS Lambda on this machine: the Runtime API, and sandboxes in which AWS's own runtime client runs our handler.

Like Lambda, it gives a sandbox one event at a time, tells it the deadline, and kills it when the deadline has passed.
"""

import json
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from tests.servers.control_groups import ControlGroup
from tests.servers.server import ClosedAtExit

_HANDLER = "tidyberg.serverless.handler"
_VERSION = "/2018-06-01/runtime"
_START_SECONDS = 550.0  # machines that run tests are busy


@dataclass
class Invocation:
    event: Any
    timeout_seconds: float
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    taken: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    answer: Any = None
    error: Any = None
    killed: bool = False


class RuntimeApi(ClosedAtExit):
    """What a sandbox talks to."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[Invocation] = queue.Queue()
        self.taken: dict[str, Invocation] = {}
        self.init_errors: list[Any] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                assert self.path == f"{_VERSION}/invocation/next"
                invocation = api.waiting.get()
                api.taken[invocation.request_id] = invocation
                deadline = round((time.time() + invocation.timeout_seconds) * 1000)
                body = json.dumps(invocation.event).encode()
                self.send_response(200)
                self.send_header("Lambda-Runtime-Aws-Request-Id", invocation.request_id)
                self.send_header("Lambda-Runtime-Deadline-Ms", str(deadline))
                self.send_header("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-1:1:function:tidyberg")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                    self.wfile.flush()
                    invocation.taken.set()
                except OSError:
                    api.waiting.put(invocation)  # the sandbox was killed while it asked

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "null")
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()
                if self.path == f"{_VERSION}/init/error":
                    api.init_errors.append(body)
                    return
                *_, request_id, what = self.path.split("/")
                invocation = api.taken[request_id]
                setattr(invocation, "answer" if what == "response" else "error", body)
                invocation.ended.set()

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Process(Protocol):
    @property
    def pid(self) -> int: ...

    def is_alive(self) -> bool: ...

    def kill(self) -> None: ...


class _Started:
    """A sandbox that starts as Lambda starts it."""

    def __init__(self, directory: Path, environment: Mapping[str, str], log: Path) -> None:
        command = [sys.executable, "-m", "awslambdaric", _HANDLER]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.pid = self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class _Forked:
    """A sandbox that has its imports from the beginning."""

    def __init__(self, directory: Path, environment: Mapping[str, str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.servers.lambda_runtime", "tidyberg.serverless.preload"])
        self._process = context.Process(target=_run_forked, args=(str(directory), dict(environment), str(log)))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _run_forked(directory: str, environment: Mapping[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    output = os.open(log, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    from awslambdaric.__main__ import main

    main(["", _HANDLER])


class LambdaFunction(ClosedAtExit):
    """One function with at most one sandbox, which is started when it is needed."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        memory_mb: int = 1769,
        *,
        fresh_homes: bool = False,
        forked: bool = False,
        limits: ControlGroup | None = None,
    ) -> None:
        """With `fresh_homes`, each sandbox is a new one, with a state directory of its own, as below /tmp of Lambda.

        Otherwise the runtime starts again in the same sandbox, as Lambda does after a timeout if it can. With `forked`,
        sandboxes start from a process that has imported everything, which saves seconds for each. `limits` are what the
        sandboxes get of this machine. Without them they get all of it, whatever `memory_mb` says.
        """
        self.fresh_homes = fresh_homes
        self._forked = forked
        self._limits = limits
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TIDYBERG_", "CATALOG_"))},
            "AWS_LAMBDA_FUNCTION_NAME": "tidyberg",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mb),
            **environment,
        }
        self._directory = directory
        self._api = RuntimeApi()
        self._process: _Process | None = None
        self.sandboxes = 0
        self.log = directory / "function.log"

    def invoke(self, event: Any, timeout_seconds: float = 900.0, kill_after: float | None = None) -> Invocation:
        """Invoke the function and wait for its end. With `kill_after`, kill it so many seconds after it got the event.

        After its timeout, a function is killed in any case.
        """
        invocation = Invocation(event, timeout_seconds)
        process = self._sandbox()
        self._api.waiting.put(invocation)
        began = time.monotonic()
        while not invocation.taken.wait(0.05):
            assert process.is_alive(), f"the sandbox ended: {self._api.init_errors} {self.log.read_text()[-4000:]}"
            assert time.monotonic() - began < _START_SECONDS, "the sandbox does not start"
        limit = min(timeout_seconds, timeout_seconds if kill_after is None else kill_after)
        ends = time.monotonic() + limit
        while not invocation.ended.wait(0.01) and time.monotonic() < ends and process.is_alive():
            pass
        if not invocation.ended.is_set():
            invocation.killed = True
            self.kill()
        return invocation

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._api.close()

    def _sandbox(self) -> _Process:
        if self._process is None:
            self.sandboxes += 1
            environment = {
                **self._environment,
                "AWS_LAMBDA_RUNTIME_API": self._api.address,
                "AWS_LAMBDA_LOG_STREAM_NAME": f"sandbox-{self.sandboxes if self.fresh_homes else 1}",
            }
            if self.fresh_homes:
                environment["TIDYBERG_HOME"] = str(self._directory / f"state-{self.sandboxes}")
            self._process = (_Forked if self._forked else _Started)(self._directory, environment, self.log)
            if self._limits is not None:
                self._limits.add(self._process.pid)
        return self._process
