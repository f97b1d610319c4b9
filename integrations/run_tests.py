"""Runs the tests of each integration in a virtual environment of its own, against a real tidyberg service.

`python integrations/run_tests.py airflow` runs one. Without a name, all run.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # for the builders of the tests

from tests.builders.served_process import environment, serving  # noqa: E402

from tidyberg.testing import Warehouse  # noqa: E402

REQUIREMENTS = {"airflow": ["apache-airflow==3.*", "pytest"]}


def install(name: str) -> Path:
    """Returns the Python of a virtual environment that has the integration. It is made once."""
    directory = HERE.parent / ".venv-integrations" / name
    python = directory / "bin" / "python"
    if not (directory / ".done").exists():
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, directory], check=True)  # noqa: S603
        packages = [*REQUIREMENTS[name], "-e", str(HERE / name)]
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


@contextmanager
def service(directory: Path) -> Iterator[int]:
    """Yields the port of a service with two untidy tables."""
    with Warehouse(directory / "lake", name="default") as warehouse:
        warehouse.append_files(warehouse.create_table("public.events"), 12, 50)
        warehouse.append_files(warehouse.create_table("public.sales"), 6, 10)
        environ = environment(warehouse, directory, TIDYBERG_ENGINE="inline")
        with serving(environ, cwd=directory) as running:
            yield int(running.url.rpartition(":")[2])


def run(name: str) -> int:
    python = install(name)
    with tempfile.TemporaryDirectory() as temporary, service(Path(temporary)) as port:
        connection = {"conn_type": "tidyberg", "host": "localhost", "port": port}
        own = {
            "TIDYBERG_URL": f"http://localhost:{port}",
            "AIRFLOW_CONN_TIDYBERG_DEFAULT": json.dumps(connection),
            "AIRFLOW_HOME": temporary,
        }
        tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", HERE / name / "tests"]
        return subprocess.run(tests, env={**os.environ, **own}, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(max(run(name) for name in sys.argv[1:] or REQUIREMENTS))
