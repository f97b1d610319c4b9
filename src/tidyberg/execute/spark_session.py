"""Starts Spark quietly, or takes the session it is given: classic or through Spark Connect."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from tidyberg.errors import ConfigurationError, EngineError

_NEEDED_JAVA = 17
_INSTALL_JAVA = "Install Java 17 (a JDK or JRE) and set JAVA_HOME, or use the inline engine."
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*(\d+))?\])?")
_LOCAL_FAILURES = 4
_CONNECT_PORT = 15002


def local_cores(master: str) -> int | None:
    """Cores of a `local` master; None for a cluster."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None:
        return None
    if match[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(match[1] or 1)


def retrying_master(master: str) -> str:
    """`local[2]` fails a job at its first lost worker; `local[2,4]` tries again as clusters do."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None or match[2] is not None:
        return master
    return f"local[{match[1] or 1},{_LOCAL_FAILURES}]"


def session_settings(master: str, driver_memory: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Our settings for a session of our own; the caller's win."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": driver_memory,
        # The simple compiler and collector: this JVM only hands out tasks, it should start fast and stay small.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        # One Python worker a core, kept between tasks, on sockets that cost microseconds.
        "spark.python.worker.reuse": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        # Arrow's allocator otherwise gives pages back after 10 ms and has them zeroed again by the kernel a moment
        # later: 5 % of a rewrite's CPU. Workers keep what they have for their next task; Spark ends idle ones.
        "spark.executorEnv.MIMALLOC_PURGE_DELAY": "30000",
        # A cancelled worker should stop writing soon.
        "spark.python.task.killTimeout": "100ms",
        # The only plans, on a cluster, are `range` and `mapInArrow`: there is nothing to optimise or to compile.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "tidyberg-spark-warehouse"),
    }
    if local_cores(master) is not None:
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return {**settings, **conf}


def check_java() -> None:
    """Say in one line what to install before Spark says it in fifty."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise ConfigurationError(f"Spark needs Java {_NEEDED_JAVA}: {where}.", hint=_INSTALL_JAVA)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(
            f"Spark needs Java {_NEEDED_JAVA}: {java} does not run: {error}.", hint=_INSTALL_JAVA
        ) from error
    match = re.search(r'version "(\d+)(?:\.(\d+))?', said.stderr + said.stdout)
    if match is None:
        raise ConfigurationError(
            f"Spark needs Java {_NEEDED_JAVA}: {java} does not tell its version.", hint=_INSTALL_JAVA
        )
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if version < _NEEDED_JAVA:
        raise ConfigurationError(f"Spark needs Java {_NEEDED_JAVA}, but {java} is Java {version}.", hint=_INSTALL_JAVA)


def start_classic(master: str, app_name: str, settings: Mapping[str, str], log: Path) -> Any:
    """A session in a JVM of our own whose chatter goes to a log file instead of the user's terminal."""
    check_java()
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    conf.setMaster(master).setAppName(app_name)
    with _worker_python(master, settings), log.open("ab") as chatter:
        try:
            gateway = launch_gateway(conf=conf, popen_kwargs={"stdout": chatter, "stderr": chatter})
            context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            _forget_gateway()
            raise EngineError(
                f"Spark did not start on {master}: {_last_words(log) or error}",
                hint="Check the master's address and the Spark settings.",
            ) from error
    return SparkSession(context)


def running_session() -> Any:
    """A session on the Spark that this process runs already, if any."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    return SparkSession(context) if context is not None else None


def start_connect(address: str, app_name: str) -> Any:
    # The class itself, not `pyspark.sql.SparkSession`: that one turns the whole process to Connect.
    from pyspark.sql.connect.session import SparkSession

    url = urlparse(address)
    try:
        # Spark's own client would try an address where nobody listens for many minutes.
        socket.create_connection((url.hostname or "localhost", url.port or _CONNECT_PORT), timeout=10).close()
        session = SparkSession.builder.remote(address).appName(app_name).create()
        session.range(1).count()
    except Exception as error:
        raise EngineError(
            f"The Spark Connect server at {url.hostname}:{url.port or _CONNECT_PORT} does not answer: "
            f"{first_line(str(error))}",
            hint="Check the address (sc://host:port) and that the server runs Spark 4.1.",
        ) from error
    return session


def is_connect(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_alive(session: Any) -> bool:
    """Whether it can still run something: its JVM may have been killed, its server started again."""
    try:
        return bool(session.version) if is_connect(session) else not session.sparkContext._jsc.sc().isStopped()
    except Exception:  # noqa: BLE001 - whatever it is, nothing can be run there
        return False


def forget(session: Any) -> None:
    """Let go of a session that has died: PySpark would go on with it for as long as the process lives."""
    if is_connect(session):
        with contextlib.suppress(Exception):
            session.stop()
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    with contextlib.suppress(Exception):
        _forget_gateway()


def stop_classic(session: Any) -> None:
    """Stop our own session and its JVM."""
    session.stop()
    _forget_gateway()


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]


def _forget_gateway() -> None:
    """PySpark keeps its JVM until the process ends; ours should not outlive its session."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = None
    SparkContext._jvm = None
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the JVM ends when its input does
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _worker_python(master: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Local workers run in this very interpreter, not in whatever `python3` the PATH has."""
    chosen = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    if chosen is None and local_cores(master) is not None:
        chosen = sys.executable
    before = os.environ.get("PYSPARK_PYTHON")
    if chosen is not None:
        os.environ["PYSPARK_PYTHON"] = chosen
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYSPARK_PYTHON", None)
        else:
            os.environ["PYSPARK_PYTHON"] = before


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    errors = [line for line in lines if "Exception" in line or "ERROR" in line or "Error" in line]
    return first_line(errors[-1]) if errors else ""
