"""A real standalone Spark cluster and a real Spark Connect server, started from the PySpark wheel."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from tests.servers.jars import FAST_START
from tests.servers.server import free_port

SPARK_HOME = Path(pyspark.__file__).parent
REPOSITORY = Path(__file__).parents[2]  # workers import the tasks of tests from here


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-2_000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on port {port}: {log.read_text(errors='replace')[-2_000:]}")


@contextmanager
def running(command: list[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process group, and ends it whatever happens."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command,
            stdout=sink,
            stderr=sink,
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_JAVA_OPTS": FAST_START,
                **environment,
            },
            start_new_session=True,
        )
    try:
        yield process
    finally:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            try:
                member.kill()
            except psutil.NoSuchProcess:
                continue
        process.wait()
        psutil.wait_procs(family, timeout=10)


def bare_python(directory: Path) -> Path:
    """An interpreter that has this one's packages but cannot see tidyberg."""
    directory.mkdir(parents=True)
    (directory / "sitecustomize.py").write_text(
        "import pathlib, sys\n"
        "sys.path[:] = [p for p in sys.path if not (pathlib.Path(p) / 'tidyberg').is_dir()]\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
    )
    wrapper = directory / "python-without-tidyberg"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH="{directory}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """A master and two workers; gives the master's address."""
    directory.mkdir(parents=True, exist_ok=True)
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    port = free_port()
    log = directory / "master.log"
    master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    address = f"spark://127.0.0.1:{port}"
    with running([*master, "--webui-port", "0"], log, {}) as process:
        wait_for_port(port, process, log)
        worker = [spark_class, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0",
                  "--cores", "2", "--memory", "2g"]  # fmt: skip
        first, second = (directory / f"worker-{number}" for number in (1, 2))
        with (
            running([*worker, "--work-dir", str(first), address], directory / "worker-1.log", {}),
            running([*worker, "--work-dir", str(second), address], directory / "worker-2.log", {}),
        ):
            yield address
    for leftover in (first, second):
        shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def connect_server(directory: Path, master: str, python: Path) -> Iterator[str]:
    """A Spark Connect server on a cluster; gives its address."""
    port = free_port()
    log = directory / "connect.log"
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", master,
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.driver.host=127.0.0.1",
        "--conf", "spark.ui.enabled=false",
        "--conf", f"spark.driver.extraJavaOptions={FAST_START}",
        "--conf", f"spark.executor.extraJavaOptions={FAST_START}",
        "--conf", "spark.cores.max=2",
        "--conf", "spark.executor.cores=1",
        "--conf", "spark.executor.memory=512m",
        "--conf", f"spark.executorEnv.PYTHONPATH={REPOSITORY}",
        "spark-internal",
    ]  # fmt: skip
    with running(command, log, {"PYSPARK_PYTHON": str(python)}) as process:
        wait_for_port(port, process, log)
        yield f"sc://127.0.0.1:{port}"
