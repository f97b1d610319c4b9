"""Tests the oracle itself: it reports that Java is missing, and continuous integration then fails."""

from pathlib import Path

import pytest

from tests.oracle.client import JavaCatalog, Oracle, OracleError, OracleMissingError
from tests.oracle.fixtures import give_up


def test_a_machine_without_java_is_recognized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(OracleMissingError):
        Oracle()


def test_a_missing_oracle_skips_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Java"):
        give_up("no Java")


def test_a_missing_oracle_fails_continuous_integration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no Java"):
        give_up("no Java")


def test_what_java_refuses_reaches_the_test(java: JavaCatalog) -> None:
    with pytest.raises(OracleError, match="TABLE_OR_VIEW_NOT_FOUND"):
        java.rows("db.nothing")
