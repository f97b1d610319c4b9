"""The example project on dbt with dbt-duckdb, an Iceberg REST catalog and a real service.

The table marts.events has 6 small files before each run of dbt adds one.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb_extensions
import httpx
import pytest
from duckdb import connect

PACKAGE = Path(__file__).parents[1]
DBT = Path(sys.executable).parent / "dbt"
EXTENSIONS = ("avro", "httpfs", "iceberg")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory with the extensions of DuckDB, which otherwise are downloaded on first use."""
    directory = tmp_path_factory.mktemp("home")
    with connect(config={"extension_directory": str(directory / ".duckdb" / "extensions")}) as connection:
        for name in EXTENSIONS:
            duckdb_extensions.import_extension(name, con=connection)
    return directory


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    """A copy of the example, with the dbt package installed."""
    copy = tmp_path_factory.mktemp("dbt") / "package"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("target", "logs", "dbt_packages"))
    dbt(copy / "example", home, "deps")
    return copy / "example"


def dbt(project: Path, home: Path, *arguments: str, status: int = 0, **environ: str) -> str:
    quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_USE_COLORS": "false", "HOME": str(home)}
    ran = subprocess.run(  # noqa: S603
        [DBT, *arguments], cwd=project, env={**os.environ, **quiet, **environ}, capture_output=True, text=True
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout


def told(output: str) -> list[str]:
    return [line.partition("tidyberg: ")[2] for line in output.splitlines() if "tidyberg: " in line]


def files() -> int:
    return httpx.get(f"{os.environ['TIDYBERG_SERVER']}/api/v1/tables/default/marts/events/health").json()["files"]


def jobs() -> list[dict[str, Any]]:
    return httpx.get(f"{os.environ['TIDYBERG_SERVER']}/api/v1/jobs").json()["jobs"]


def test_a_run_compacts_the_iceberg_table_that_it_has_built_and_no_other(project: Path, home: Path) -> None:
    assert files() == 6
    (line,) = told(dbt(project, home, "run"))
    (job,) = jobs()
    assert (job["namespace"], job["table"], job["status"]) == ("marts", "events", "succeeded")
    assert line == f"marts.events: committed, job {job['job_id']}, 7 files became 1"
    assert files() == 1


def test_commands_that_build_nothing_compact_nothing(project: Path, home: Path) -> None:
    before = len(jobs())
    assert told(dbt(project, home, "compile")) == ["this run has built no Iceberg table"]
    assert len(jobs()) == before


def test_a_service_that_is_away_is_a_warning_and_a_failure_if_warnings_are(project: Path, home: Path) -> None:
    away = {"TIDYBERG_SERVER": "http://127.0.0.1:1"}
    output = dbt(project, home, "run", "--select", "+events", **away)
    assert "tidyberg: marts.events: The service at http://127.0.0.1:1 does not answer" in output
    dbt(project, home, "--warn-error", "run", "--select", "+events", status=2, **away)


def test_without_a_function_the_macro_and_the_command_line_know_the_same_tables(project: Path, home: Path) -> None:
    """Other adapters have no plugin. They name the tables, and `--tables-from` reads them from dbt's own files."""
    profile = project / "profiles.yml"
    given = profile.read_text()
    profile.write_text(given.partition("      plugins:")[0])
    try:
        (line,) = told(dbt(project, home, "run"))
    finally:
        profile.write_text(given)
    assert line == "to compact what this run has built: tidyberg compact marts.events"

    command = [os.environ["COMMAND"], "compact", "--tables-from", "target/run_results.json", "--json"]
    ran = subprocess.run(  # noqa: S603
        [*command, "--min-input-files", "2"], cwd=project, env=json.loads(os.environ["COMMAND_ENVIRONMENT"]),
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (result,) = json.loads(ran.stdout)
    assert (result["table"], result["outcome"]) == ("marts.events", "committed")
    assert files() == 1
