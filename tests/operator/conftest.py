"""A Kubernetes API, a service with real tables, and the operator as a process between them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.api.conftest import _away_from_the_machines_own_configuration, open_warehouse, settings_of
from tests.operator.cluster import Cluster
from tests.servers.server import free_port
from tidyberg.settings.settings import Settings

__all__ = ["_away_from_the_machines_own_configuration"]


class OperatorProcess:
    """`tidyberg-operator run`. `said` holds what it has written so far."""

    def __init__(self, environ: dict[str, str], arguments: tuple[str, ...]) -> None:
        command = [sys.executable, "-W", "error", "-c", "from tidyberg.operator.main import run; run()", "run"]
        quick = ("--every", "0.5", "--debt-every", "1", "--probe-port", str(free_port()))
        self._process = subprocess.Popen([*command, *quick, *arguments], env=environ, stderr=subprocess.PIPE, text=True)
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said += line

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        """Waits until it has ended, and returns its status."""
        status = self._process.wait(60)
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        return status


StartOperator = Callable[..., AbstractContextManager[OperatorProcess]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    opened = Cluster()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def service_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    directory = tmp_path_factory.mktemp("service")
    with open_warehouse(directory) as warehouse:
        yield settings_of(warehouse, directory)


@pytest.fixture(scope="module")
def start_operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> StartOperator:
    kubeconfig = cluster.kubeconfig(tmp_path_factory.mktemp("operator"))

    @contextmanager
    def start(url: str, *arguments: str) -> Iterator[OperatorProcess]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDYBERG_")}
        process = OperatorProcess({**kept, "KUBECONFIG": str(kubeconfig), "TIDYBERG_SERVER": url}, arguments)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            sys.stderr.write(process.said)  # pytest shows it if the test failed

    return start
