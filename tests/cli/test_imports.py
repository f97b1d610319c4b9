"""Short commands import little: what they do not need would take longer to load than their answer to make."""

import subprocess
import sys
from pathlib import Path

import pytest

_SHOW = """
import sys
from tidyberg.cli.main import app, main
status = main(app, sys.argv[1:])
print("LOADED", *sorted(sys.modules))
sys.exit(status)
"""
_NEVER = {"pyspark", "fastapi", "uvicorn", "starlette", "redis", "prometheus_client", "opentelemetry", "httpx", "jwt"}
_TO_REWRITE = {"tidyberg.commit.publish", "tidyberg.execute.kernel.run", "tidyberg.service.service"}
_TO_READ = {"pyarrow", "numpy", "pyiceberg", "sqlalchemy", "yaml"}


def loaded(directory: Path, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW, *arguments], cwd=directory, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(next(line for line in done.stdout.splitlines() if line.startswith("LOADED")).split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["plan", "--help"]])
def test_help_loads_no_library_that_reads_tables(tmp_path: Path, arguments: list[str]) -> None:
    assert not loaded(tmp_path, *arguments) & (_NEVER | _TO_REWRITE | _TO_READ)


@pytest.mark.parametrize("command", ["plan", "health"])
def test_looking_at_a_table_loads_nothing_that_runs_jobs_or_serves(config: Path, command: str) -> None:
    config.write_text(config.read_text().replace("engine: inline\n", ""))  # Spark, which is the default
    found = loaded(config.parent, command, "analytics.events")
    assert "pyiceberg" in found
    assert not found & (_NEVER | _TO_REWRITE | {"sqlglot", "requests", "pandas"})


def test_a_filter_loads_what_parses_it(config: Path) -> None:
    assert "sqlglot" in loaded(config.parent, "plan", "analytics.events", "--where", "id > 3")
