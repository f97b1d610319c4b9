"""Runs the tests of each integration in a virtual environment of its own, against a real tidyberg service.

`python integrations/run_tests.py airflow` runs one. Without a name, all run.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # for the builders of the tests

from tests.builders.served_process import environment, serving  # noqa: E402
from tests.rest.lab import RestLab  # noqa: E402
from tests.servers.rest import RestServer  # noqa: E402

from tidyberg.testing import Warehouse  # noqa: E402

EVENTS = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "kind", StringType(), required=False))
DUCKDB = "1.5.5"
EXTENSIONS = [f"duckdb-extension-{name}=={DUCKDB}" for name in ("avro", "httpfs", "iceberg")]


@dataclass(frozen=True)
class Integration:
    """The packages that the tests need, and the servers that run meanwhile, as variables of the environment."""

    requirements: tuple[str, ...]
    servers: Callable[[Path], AbstractContextManager[dict[str, str]]]


@contextmanager
def warehouse(directory: Path) -> Iterator[Warehouse]:
    """Yields a warehouse with untidy tables and a tidy one."""
    with Warehouse(directory / "lake", name="default") as lake:
        for name, files, rows in (("events", 12, 50), ("sales", 6, 10), ("local", 4, 10), ("tidy", 1, 10)):
            lake.append_files(lake.create_table(f"public.{name}"), files, rows)
        yield lake


@contextmanager
def for_airflow(directory: Path) -> Iterator[dict[str, str]]:
    with warehouse(directory) as lake:
        environ = environment(lake, directory, TIDYBERG_ENGINE="inline")
        with serving(environ, cwd=directory) as running:
            connection = {"conn_type": "tidyberg", "host": "localhost", "port": int(running.url.rpartition(":")[2])}
            yield {"AIRFLOW_CONN_TIDYBERG_DEFAULT": json.dumps(connection), "AIRFLOW_HOME": str(directory)}


@contextmanager
def for_dagster(directory: Path) -> Iterator[dict[str, str]]:
    """One service has no workers, so that its jobs wait."""
    with warehouse(directory) as lake:
        environ = environment(lake, directory, TIDYBERG_ENGINE="inline")
        idle = environment(lake, directory / "idle", TIDYBERG_ENGINE="inline")
        with (
            serving(environ, cwd=directory) as running,
            serving(idle, "--workers", "0", cwd=directory) as idle_service,
        ):
            yield {
                "TIDYBERG_SERVER": running.url,
                "IDLE_SERVICE": idle_service.url,
                "TIDYBERG_HOME": str(directory / "in_process"),
                "PYICEBERG_CATALOG__DEFAULT__URI": lake.properties["uri"],
                "PYICEBERG_CATALOG__DEFAULT__WAREHOUSE": lake.properties["warehouse"],
                "DAGSTER_HOME": str(directory),
            }


@contextmanager
def for_dbt(directory: Path) -> Iterator[dict[str, str]]:
    """Yields a REST catalog too, because DuckDB writes Iceberg tables only through one."""
    with closing(RestServer(directory / "rest")) as server, closing(RestLab(server, directory)) as lake:
        lake.append_files(lake.create_table("marts.events", EVENTS), 6, 10)
        settings = {
            "engine": "inline",
            "catalogs": {"default": {"type": "rest", "uri": server.uri}},
            "compaction": {"hot_commits": 1000},  # the commits of these tests are young
            "store": {"path": str(directory / "jobs.db")},
        }
        (directory / "tidyberg.yaml").write_text(yaml.safe_dump(settings))
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("TIDYBERG_", "CATALOG_"))}
        environ |= {"TIDYBERG_CONFIG": str(directory / "tidyberg.yaml"), "TIDYBERG_HOME": str(directory / "state")}
        with serving(environ, cwd=directory) as running:
            yield {
                "TIDYBERG_SERVER": running.url,
                "ICEBERG_REST": server.uri,
                "COMMAND": str(Path(sys.executable).parent / "tidyberg"),
                "COMMAND_ENVIRONMENT": json.dumps(environ),
            }


INTEGRATIONS = {
    "airflow": Integration(("apache-airflow==3.*",), for_airflow),
    "dagster": Integration(("dagster==1.*", "-e", str(HERE.parent)), for_dagster),
    # The extensions of DuckDB are of one version with it. dbt-core 1.12 cannot be installed from a package index alone.
    "dbt": Integration(("dbt-core==1.11.*", f"duckdb=={DUCKDB}", "duckdb-extensions", *EXTENSIONS), for_dbt),
}


def install(name: str) -> Path:
    """Returns the Python of a virtual environment that has the integration. It is made once."""
    directory = HERE.parent / ".venv-integrations" / name
    python = directory / "bin" / "python"
    if not (directory / ".done").exists():
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, directory], check=True)  # noqa: S603
        packages = [*INTEGRATIONS[name].requirements, "pytest", "-e", str(HERE / name)]
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *packages], check=True, env=_index())  # noqa: S603
        (directory / ".done").touch()
    return python


def _index() -> dict[str, str]:
    """uv and pip are configured apart: hand on where packages come from and which certificates to trust."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    given = dict(line.split("=", 1) for line in listed.stdout.splitlines() if "=" in line)
    found = {name.rpartition(".")[2]: value.strip("'") for name, value in given.items()}
    more = {"UV_DEFAULT_INDEX": found.get("index-url"), "SSL_CERT_FILE": found.get("cert")}
    return {**{name: value for name, value in more.items() if value}, **os.environ}


def run(name: str) -> int:
    python = install(name)
    with tempfile.TemporaryDirectory() as temporary, INTEGRATIONS[name].servers(Path(temporary)) as environ:
        tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", HERE / name / "tests"]
        return subprocess.run(tests, env={**os.environ, **environ}, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(max([run(name) for name in sys.argv[1:] or INTEGRATIONS]))
