"""The set-up says in one line what a machine lacks, before anything slow begins."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that make needs, without a virtual environment."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
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
def test_java_versions_are_told_apart(tmp_path: Path, version: str, fine: bool) -> None:
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


def test_the_lock_names_versions_and_no_addresses() -> None:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    assert all("==" in line for line in lines)
    assert not any("://" in line or line.startswith("-") for line in lines)
