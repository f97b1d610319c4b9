"""Short commands import only what they need, because imports would take most of their time."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.console import Run

_SHOW = """
import sys
from tidyberg.cli.main import app, main
status = main(app, sys.argv[1:])
print("LOADED", *sorted(sys.modules))
sys.exit(status)
"""
_NEVER = {"pyspark", "fastapi", "uvicorn", "starlette", "redis", "prometheus_client", "opentelemetry", "httpx", "jwt"}
_TO_REWRITE = {"tidyberg.commit.publish", "tidyberg.execute.kernel.run", "tidyberg.service.service"}
_SELDOM = {"sqlglot", "requests", "pandas", "pydantic_settings", "tidyberg.storage.s3_files", "http.client"}
_TO_READ = {"pyarrow", "numpy", "pyiceberg", "sqlalchemy", "yaml"}


def loaded(directory: Path, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW, *arguments], cwd=directory, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(next(line for line in done.stdout.splitlines() if line.startswith("LOADED")).split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["plan", "--help"]])
def test_help_imports_no_table_library(tmp_path: Path, arguments: list[str]) -> None:
    assert not loaded(tmp_path, *arguments) & (_NEVER | _TO_REWRITE | _TO_READ)


@pytest.mark.parametrize("command", ["plan", "health"])
def test_read_only_commands_import_no_job_or_server_code(config: Path, command: str) -> None:
    config.write_text(config.read_text().replace("engine: inline\n", ""))  # the default engine is Spark
    found = loaded(config.parent, command, "analytics.events")
    assert "pyiceberg" in found
    assert not found & (_NEVER | _TO_REWRITE | _SELDOM)


def test_settings_in_variables_import_their_reader(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDYBERG_VERIFY", "full")
    assert "pydantic_settings" in loaded(config.parent, "plan", "analytics.events")


def test_command_exits_without_garbage_collection(tmp_path: Path) -> None:
    """Objects are frozen, so Python does not collect them at exit."""
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print('FROZEN', gc.get_freeze_count()))\n"
        "from tidyberg.cli.main import run\n"
        "sys.argv = ['tidyberg', '--version']\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert int(done.stdout.split("FROZEN")[1]) > 10_000


def test_filter_imports_its_parser(config: Path) -> None:
    assert "sqlglot" in loaded(config.parent, "plan", "analytics.events", "--where", "id > 3")


def test_only_jobs_on_spark_launch_a_jvm(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[object] = []
    monkeypatch.setattr("tidyberg.execute.spark.launch.launch_in_background", lambda *given: launched.append(given))
    monkeypatch.setattr("tidyberg.control.control.Control.expect_work", lambda _: launched.append("engine"))
    assert run("compact", "analytics.events", "--engine", "inline").status == 0
    launched.clear()  # the inline engine starts no JVM
    config.write_text(config.read_text().replace("engine: inline\n", ""))
    for looking in (["plan"], ["health"], ["compact", "--dry-run"]):
        assert run(*looking, "analytics.events").status == 0
    assert launched == []
    assert run("compact", "analytics.events").status == 0  # now there is nothing to do
    assert len(launched) == 2


def test_jvm_starts_before_table_libraries_are_imported(config: Path) -> None:
    """The libraries are imported while the JVM starts."""
    config.write_text(config.read_text().replace("engine: inline\n", ""))
    code = (
        "import sys\n"
        "import tidyberg.execute.spark.launch as spark_launch\n"
        "def launch(*_):\n"
        "    print('LOADED', *sorted(sys.modules), flush=True)\n"
        "    raise SystemExit(0)\n"
        "spark_launch.launch_in_background = launch\n"
        "from tidyberg.cli.main import run\n"
        "sys.argv = ['tidyberg', 'compact', 'analytics.events']\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=config.parent, capture_output=True, text=True, timeout=120)
    assert "tidyberg.cli.session" in done.stdout.split(), done.stderr
    assert not set(done.stdout.split()) & {"pyarrow", "numpy", "pyiceberg", "sqlalchemy"}
