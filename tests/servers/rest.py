"""Iceberg's own REST catalog server, with which the project tests its clients. It runs on SQLite in its own process."""

import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.servers.jars import FAST_START, JarsMissingError, Module, classpath, java_executable
from tests.servers.server import ServerProcess, free_port

START_SECONDS = 60.0
ICEBERG = "1.11.0"
JETTY = "12.1.13"
MODULES = (
    Module("org.apache.iceberg", "iceberg-core", ICEBERG, ("", "tests")),
    Module("org.apache.iceberg", "iceberg-open-api", ICEBERG, ("test-fixtures",), transitive=False),
    Module("org.apache.hadoop", "hadoop-client-api", "3.4.3"),
    Module("org.apache.hadoop", "hadoop-client-runtime", "3.4.3"),
    Module("org.eclipse.jetty.ee10", "jetty-ee10-servlet", JETTY),
    Module("org.eclipse.jetty.compression", "jetty-compression-server", JETTY),
    Module("org.eclipse.jetty.compression", "jetty-compression-gzip", JETTY),
    Module("org.xerial", "sqlite-jdbc", "3.50.3.0"),
    Module("org.slf4j", "slf4j-simple", "2.0.17"),
)


class RestServerMissingError(Exception):
    """The server is not available on this machine."""


class RestServer(ServerProcess):
    """Runs until closed. Its tables are in `directory/warehouse`, which clients on this machine share."""

    modules: tuple[Module, ...] = MODULES

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.warehouse = directory / "warehouse"
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._log = directory / "server.log"
        try:
            jars = classpath("rest-catalog", self.modules)
            flags = ["-Xmx256m", *FAST_START.split()]
            command = [java_executable(), *flags, "-cp", jars, "org.apache.iceberg.rest.RESTCatalogServer"]
        except JarsMissingError as error:
            raise RestServerMissingError(str(error)) from error
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self._settings()}
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _settings(self) -> dict[str, str]:
        """The server reads `CATALOG_A__B_C` as the catalog property `a-b.c`."""
        return {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_WAREHOUSE": f"file://{self.warehouse}",
            "CATALOG_URI": f"jdbc:sqlite:file:{self.directory / 'catalog.db'}",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        }

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RestServerMissingError(f"it ended with {self._process.returncode}: {self._last_words()}")
            try:
                with urllib.request.urlopen(f"{self.uri}/v1/config", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise RestServerMissingError(f"it was not ready after {START_SECONDS:.0f} seconds: {self._last_words()}")

    def _last_words(self) -> str:
        return " ".join(self._log.read_text(errors="replace").split())[-500:]
