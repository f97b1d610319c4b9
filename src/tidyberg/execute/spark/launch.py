"""Launches Spark's JVM in the background, so that a job can read its table meanwhile, and ends unused JVMs.

PySpark's own launcher waits until the JVM answers. This one runs the same command, and then gives PySpark the port and
the secret of the gateway, which PySpark supports for a JVM that another program has started.
"""

import atexit
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidyberg.errors import EngineError
from tidyberg.execute.spark.private import CONNECTION_FILE, open_gateway, read_connection

_POLL_SECONDS = 0.02
_END_SECONDS = 5.0  # how long a JVM may take to end


class Launch:
    """A JVM that is starting."""

    def __init__(self, settings: Mapping[str, str], environment: Mapping[str, str], log: Path) -> None:
        self.settings = dict(settings)
        self.environment = dict(environment)
        self.log = log
        self._directory = Path(tempfile.mkdtemp(prefix="tidyberg-gateway-"))
        self._connection = self._directory / "connection"
        self._abandoned = False
        with log.open("ab") as chatter:
            self.process = subprocess.Popen(  # noqa: S603 - Spark's own command
                [
                    str(spark_home() / "bin" / "spark-submit"),
                    *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
                    *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")),
                ],
                env={
                    **os.environ,
                    **environment,
                    "SPARK_CONNECT_MODE": "0",
                    CONNECTION_FILE: str(self._connection),
                },
                stdin=subprocess.PIPE,  # the JVM ends when this pipe closes, however this process ends
                stdout=chatter,
                stderr=chatter,
                process_group=0,  # Ctrl-C reaches only this process
            )

    @property
    def has_crashed(self) -> bool:
        """Whether the JVM has ended with a fatal error."""
        return self.process.poll() == -signal.SIGABRT

    def gateway(self, conf: Any) -> Any:
        """Wait for the JVM and return PySpark's gateway to it."""
        try:
            while not self._connection.exists():
                if self.process.poll() is not None or self._abandoned:
                    raise EngineError("The JVM ended before it answered.")
                time.sleep(_POLL_SECONDS)
            port, secret = read_connection(self._connection)
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        with changed_environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            gateway = open_gateway(conf)
        gateway.proc = self.process
        return gateway

    def abandon(self) -> None:
        """End the JVM, which then removes its temporary files. A thread that waits for it gets an error."""
        self._abandoned = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class _PendingLaunch:
    """A launch that no engine has taken yet. There is at most one, because a process has one Spark."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launch: Launch | None = None
        self._logs: list[Path] = []

    def put(self, settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._launch is None:
                handle, name = tempfile.mkstemp(prefix="tidyberg-spark-", suffix=".log")
                os.close(handle)
                self._logs.append(Path(name))
                self._launch = Launch(settings, environment, Path(name))

    def take(self, settings: Mapping[str, str]) -> Launch | None:
        with self._lock:
            if self._launch is None or self._launch.settings != dict(settings):
                return None
            launch, self._launch = self._launch, None
            return launch

    def abandon(self) -> None:
        with self._lock:
            if self._launch is not None:
                self._launch.abandon()
                self._launch = None
            for log in self._logs:
                log.unlink(missing_ok=True)


_waiting = _PendingLaunch()
atexit.register(_waiting.abandon)


def launch_in_background(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Launch a JVM before there is an engine. The first engine with these settings takes it."""
    _waiting.put(settings, environment)


def launched(settings: Mapping[str, str], environment: Mapping[str, str], log: Path) -> Launch:
    """Return the pending launch if it has these settings, or a new one."""
    return _waiting.take(settings) or Launch(settings, environment, log)


@contextlib.contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Change environment variables for a while, because PySpark reads them when it starts."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def spark_home() -> Path:
    """Return Spark's home, as PySpark would find it, without importing PySpark."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineError("PySpark is not installed.", hint=f"Install it for {sys.executable}.")
    return Path(spec.origin).parent
