"""Starts and stops classic Spark, and connects to Spark Connect servers."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from tidyberg.errors import BadInput, ConfigurationError, EngineError
from tidyberg.execute.spark.class_archive import find_archive, submit_options, uses_archive
from tidyberg.execute.spark.launch import Launch, changed_environment, launched, spark_home
from tidyberg.execute.spark.private import forget_context, is_stopped, take_accumulator_server, take_gateway
from tidyberg.model.sizes import MB, parse_size

_NEEDED_JAVA = 17
_INSTALL_JAVA = "Install Java 17 (a JDK or JRE) and set JAVA_HOME, or use the inline engine."
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*(\d+))?\])?")
_LOCAL_FAILURES = 4
_CONNECT_PORT = 15002


def local_cores(master: str) -> int | None:
    """Return the cores of a `local` master, or None for a cluster."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None:
        return None
    if match[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(match[1] or 1)


def retrying_master(master: str) -> str:
    """Add retries to a local master: `local[2]` fails a job at its first lost worker, `local[2,4]` does not."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None or match[2] is not None:
        return master
    return f"local[{match[1] or 1},{_LOCAL_FAILURES}]"


def session_settings(master: str, driver_memory: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of our own Spark. Those of the caller take precedence."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": driver_memory,
        # Use the simple compiler and collector, because this JVM only schedules tasks and should start fast.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        # Keep one Python worker per core between tasks, and use fast sockets.
        "spark.python.worker.reuse": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
        # By default allocators return pages at once, and the operating system zeroes them again soon after, which takes
        # 5 % of the CPU of a rewrite and 20 % of a sort. Workers keep their memory for the next task: Arrow's batches,
        # and NumPy's arrays, which the C library allocates. Spark ends idle workers.
        "spark.executorEnv.MIMALLOC_PURGE_DELAY": "30000",
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 * MB),
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 * MB),
        # The C library gives each thread 64 MB of addresses, which count where workers are limited.
        "spark.executorEnv.MALLOC_ARENA_MAX": "2",
        # A cancelled worker should stop writing soon.
        "spark.python.task.killTimeout": "100ms",
        # The only query plans are `range` and `mapInArrow`, which need no optimizer and no code generation.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "tidyberg-spark-warehouse"),
    }
    if local_cores(master) is not None:
        settings["spark.python.daemon.module"] = "tidyberg.execute.spark.worker_daemon"
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return {**settings, **conf}


def check_java() -> None:
    """Raise a short error if there is no usable Java, because Spark's own error is long."""
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
            f"Spark needs Java {_NEEDED_JAVA}: {java} does not report its version.", hint=_INSTALL_JAVA
        )
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if version < _NEEDED_JAVA:
        raise ConfigurationError(f"Spark needs Java {_NEEDED_JAVA}, but {java} is Java {version}.", hint=_INSTALL_JAVA)


def start_classic(
    master: str,
    app_name: str,
    settings: Mapping[str, str],
    log: Path,
    launch: Launch | None = None,
    *,
    class_archive: bool = False,
) -> Any:
    """Start a context in our own JVM, whose output goes to a log file instead of the terminal.

    A session takes another second, so `session_of` makes one only if it is needed.
    """
    if launch is None:
        check_java()
    from pyspark import SparkConf, SparkContext

    wanted = launch_settings(master, app_name, settings)
    _forget_gateway()  # otherwise PySpark would use the JVM of a session that the caller has stopped
    conf = SparkConf(loadDefaults=False)
    for name, value in wanted.items():
        conf.set(name, value)
    environment = launch_environment(master, settings, class_archive=class_archive)
    with changed_environment(environment):
        try:
            launch = launch or launched(wanted, environment, log)
            return SparkContext(conf=conf, gateway=launch.gateway(conf))
        except Exception as error:
            _forget_gateway()
            if launch is not None and launch.has_crashed and uses_archive(launch.environment):
                launch.abandon()
                if (archive := find_archive(spark_home())) is not None:
                    archive.discard()
                return start_classic(master, app_name, settings, log)
            if launch is not None:
                launch.abandon()
            check_java()
            raise EngineError(
                f"Spark did not start on {master}: {_last_words(launch.log if launch else log) or error}",
                hint="Check the master's address and the Spark settings.",
            ) from error


def engine_launch(
    master: str, driver_memory: str, conf: Mapping[str, str], app_name: str, *, class_archive: bool = False
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings and the environment with which an engine launches its JVM."""
    settings = session_settings(master, driver_memory, conf)
    environment = launch_environment(master, settings, class_archive=class_archive)
    return launch_settings(master, app_name, settings), environment


def launch_settings(master: str, app_name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which the JVM is launched."""
    return {**settings, "spark.master": master, "spark.app.name": app_name}


def launch_environment(master: str, settings: Mapping[str, str], *, class_archive: bool = False) -> dict[str, str]:
    """Return the environment variables that PySpark and its JVM read when they start."""
    changed = {"PYSPARK_PIN_THREAD": "true"}  # jobs are cancelled by the tag of the submitting thread
    if local_cores(master) is not None and "PYSPARK_PYTHON" not in os.environ:
        changed["PYSPARK_PYTHON"] = sys.executable  # not the first `python3` on the PATH
    if "spark.pyspark.python" in settings:
        changed["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    if class_archive and local_cores(master) is not None:
        changed.update(submit_options(find_archive(spark_home())))
    return changed


def session_of(context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession(context)


def start_connect(address: str, app_name: str) -> Any:
    # Use this class, because `pyspark.sql.SparkSession` would switch the whole process to Connect.
    from pyspark.sql.connect.session import SparkSession

    url = urlparse(address)
    try:
        # Spark's client would retry an address where nothing listens for many minutes.
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


def context_of(spark: Any) -> Any:
    """Return the context of a classic session. A context is returned unchanged."""
    return getattr(spark, "sparkContext", spark)


def setting_of(spark: Any, name: str) -> str | None:
    conf = spark.conf if hasattr(spark, "conf") else spark.getConf()
    value = conf.get(name)
    return None if value is None else str(value)


def worker_memory(text: str | None) -> int | None:
    """Return the limit of a Python worker in bytes, as Spark reads it. A number without a unit counts megabytes."""
    try:
        return parse_size(f"{text}m" if text is not None and text.isdecimal() else text or "")
    except BadInput:  # not set, or Spark says itself what is wrong with it
        return None


def is_alive(spark: Any) -> bool:
    """Whether Spark can still run jobs. Its JVM may have died, or its server may have restarted."""
    try:
        return bool(spark.version) if is_connect(spark) else not is_stopped(context_of(spark))
    except Exception:  # noqa: BLE001 - whatever it is, nothing can be run there
        return False


def forget(spark: Any) -> None:
    """Forget a Spark that has died, which PySpark would otherwise use until the process ends."""
    if is_connect(spark):
        with contextlib.suppress(Exception):
            spark.stop()
        return
    forget_context()
    with contextlib.suppress(Exception):
        _forget_gateway()


def stop_classic(spark: Any) -> None:
    """Stop our own Spark and its JVM."""
    with _ending_accumulators(context_of(spark)):
        spark.stop()
        _forget_gateway()


@contextlib.contextmanager
def _ending_accumulators(context: Any) -> Iterator[None]:
    """Stop PySpark's accumulator server in a thread, because its shutdown takes a second.

    The server notices the shutdown when its connection closes, together with the JVM.
    """
    server = take_accumulator_server(context)
    if server is None:  # somebody else has stopped this Spark
        yield
        return
    server.handle_error = lambda *_: None
    ending = threading.Thread(target=server.shutdown, name="tidyberg-spark-end")
    ending.start()
    try:
        yield
    finally:
        ending.join()


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300]


def _forget_gateway() -> None:
    """End our JVM with its session. PySpark would keep it until the process ends."""
    gateway = take_gateway()
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the JVM ends when this pipe closes
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    errors = [line for line in lines if "Exception" in line or "ERROR" in line or "Error" in line]
    return first_line(errors[-1]) if errors else ""
