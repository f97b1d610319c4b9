"""The setup says in one line what a machine lacks, before anything slow starts."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that make needs, without a virtual environment."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-runtime.lock"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    return tmp_path


def fake(directory: Path, name: str, script: str) -> Path:
    program = directory / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def make(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments],
        cwd=clone,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def said(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode != 0
    (line,) = (result.stdout + result.stderr).splitlines()
    return line


@pytest.mark.parametrize("target", ["demo", "test", "bench"])
def test_an_old_java_is_named_with_what_to_install(clone: Path, tmp_path: Path, target: str) -> None:
    fake(tmp_path / "java", "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    line = said(make(clone, target, JAVA_HOME=str(tmp_path / "java")))
    assert "needs Java 17 or newer" in line
    assert "is 11.0.2" in line
    assert "openjdk-17" in line
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(
    ("version", "fine"), [("1.8.0_402", False), ("16.0.1", False), ("17", True), ("17.0.15", True), ("21-ea", True)]
)
def test_java_versions_are_recognized(tmp_path: Path, version: str, fine: bool) -> None:
    fake(tmp_path, "java", f"""echo 'openjdk version "{version}"' >&2""")
    found = subprocess.run(
        ["sh", str(ROOT / "scripts" / "check-java.sh")],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (found.stdout == "") is fine


def test_a_missing_java_is_named(clone: Path, tmp_path: Path) -> None:
    assert "there is none in JAVA_HOME" in said(make(clone, "demo", JAVA_HOME=str(tmp_path / "nowhere")))


def test_a_java_that_does_not_start_is_named(clone: Path, tmp_path: Path) -> None:
    fake(tmp_path / "java", "java", "exit 1")
    assert "does not start" in said(make(clone, "test", JAVA_HOME=str(tmp_path / "java")))


def test_an_old_python_is_named(clone: Path, tmp_path: Path) -> None:
    old = fake(tmp_path, "python3.9", "exit 1")
    assert "needs Python 3.11 or newer" in said(make(clone, "setup", f"PYTHON={old}"))


def test_help_lists_every_target_that_people_call(clone: Path) -> None:
    listed = make(clone).stdout
    for target in ("setup", "demo", "test", "test-fast", "lint", "format", "lock", "build", "bench", "clean"):
        assert f"make {target} " in listed


LOCKS = ("requirements.lock", "requirements-runtime.lock")


def pinned(lock: str) -> list[str]:
    return [line for line in (ROOT / lock).read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_names_versions_and_no_addresses(lock: str) -> None:
    assert all("==" in line for line in pinned(lock))
    assert not any("://" in line or line.startswith("-") for line in pinned(lock))


def test_the_runtime_lock_is_the_part_of_the_lock_that_running_needs() -> None:
    runtime = {line.split(" ;")[0] for line in pinned("requirements-runtime.lock")}
    everything = {line.split(" ;")[0] for line in pinned("requirements.lock")}
    assert runtime <= everything
    names = {line.split("==")[0] for line in runtime}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[\[<>=; ]", dependency)[0] for dependency in declared} <= names
    assert not names & {"pytest", "mypy", "ruff", "polars", "duckdb", "moto", "botocore"}


@pytest.fixture
def fake_venv(clone: Path) -> Path:
    """An environment whose Python writes down what it is asked; the log lies beside it."""
    log = clone / "calls"
    fake(clone / ".venv", "python", f'case "$*" in -c*) exit 0;; esac; echo "python $*" >> {log}')
    return log


def uv(clone: Path, log: Path, *, reaches: bool) -> str:
    """A uv on the PATH that writes down what it is asked, and may reach packages or not."""
    status = 0 if reaches else 2
    fake(
        clone,
        "uv",
        f"""case "$*" in *--help) echo --config-settings-package; exit 0;; esac
        echo "uv $* index=$UV_DEFAULT_INDEX" >> {log}; exit {status}""",
    )
    return f"{clone / 'bin'}:{os.environ['PATH']}"


def test_the_demo_installs_only_what_running_needs(clone: Path, fake_venv: Path) -> None:
    path = uv(clone, fake_venv, reaches=True)
    make(clone, ".venv/.tidyberg-runtime", PATH=path)
    calls = fake_venv.read_text()
    assert "-r requirements-runtime.lock" in calls
    assert "-r requirements.lock" not in calls
    assert "$(RUNTIME_STAMP)" in next(line for line in (ROOT / "Makefile").read_text().splitlines() if "demo:" in line)


def test_after_a_full_setup_the_demo_installs_nothing(clone: Path, fake_venv: Path) -> None:
    path = uv(clone, fake_venv, reaches=True)
    assert make(clone, "setup", PATH=path).returncode == 0
    assert "-r requirements.lock" in fake_venv.read_text()
    assert "up to date" in make(clone, ".venv/.tidyberg-runtime", PATH=path).stdout


def test_without_uv_the_setup_gets_one_with_pip_first(clone: Path, fake_venv: Path) -> None:
    fake(clone, "uv", "exit 127")  # hides one that this machine may have
    make(clone, "setup", PATH=f"{clone / 'bin'}:{os.environ['PATH']}")
    first = fake_venv.read_text().splitlines()[0]
    assert first.startswith("python -m pip install")
    assert "uv" in first


def test_where_uv_reaches_no_packages_pip_installs_them(clone: Path, fake_venv: Path) -> None:
    result = make(clone, "setup", PATH=uv(clone, fake_venv, reaches=False))
    assert result.returncode == 0
    assert "uv could not do it" in result.stdout
    assert "python -m pip install --quiet --no-deps -r requirements.lock" in fake_venv.read_text()


def test_uv_takes_packages_from_where_pip_does(clone: Path, fake_venv: Path) -> None:
    fake(
        clone / ".venv",
        "python",
        """case "$*" in *"config list"*) echo "global.index-url='https://mirror.invalid/simple'";; esac""",
    )
    assert make(clone, "setup", PATH=uv(clone, fake_venv, reaches=True)).returncode == 0
    assert "index=https://mirror.invalid/simple" in fake_venv.read_text()
