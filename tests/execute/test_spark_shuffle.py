"""Shuffles on our own local Spark, through a directory, and on the session of a caller, through Spark's shuffle."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execute.servers import REPOSITORY
from tests.execute.shuffle_checks import (
    check_a_failed_attempt_is_not_seen,
    check_cancel,
    check_every_chunk_arrives_once,
    check_failures,
    check_sort,
)
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.execute.spark.session import session_of

pytestmark = [
    pytest.mark.spark,
    # PySpark leaves the sockets of its actions to the garbage collector, and says so in a comment.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module", name="scratch")
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module", name="local")
def _local(scratch: Path) -> Iterator[SparkEngine]:
    conf = {"spark.executorEnv.PYTHONPATH": str(REPOSITORY), "spark.local.dir": str(scratch)}
    engine = SparkEngine("local[2]", conf=conf)
    engine.start()
    yield engine
    engine.close()


@pytest.fixture(scope="module", name="session")
def _session(local: SparkEngine) -> Iterator[SparkEngine]:
    """Another engine on the same Spark, which does not own it."""
    engine = SparkEngine(session=session_of(local._spark))
    yield engine
    engine.close()


@pytest.fixture(name="engine", params=["local", "session"])
def _engine(request: pytest.FixtureRequest) -> SparkEngine:
    engine = request.getfixturevalue(request.param)
    assert isinstance(engine, SparkEngine)
    return engine


def left(scratch: Path) -> list[Path]:
    return [path for path in scratch.rglob("tidyberg-*") if not path.name.endswith((".log", ".zip"))]


def test_every_chunk_arrives_once(engine: SparkEngine, scratch: Path) -> None:
    check_every_chunk_arrives_once(engine)
    assert not left(scratch)


def test_a_large_group_is_sorted(engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_sort(engine, tmp_path, monkeypatch)


def test_attempts_that_failed_or_were_killed_are_not_seen(engine: SparkEngine, tmp_path: Path, scratch: Path) -> None:
    check_a_failed_attempt_is_not_seen(engine, tmp_path, ("storage", "kill"))
    assert not [path for path in left(scratch) if path.name.startswith("tidyberg-shuffle")]


def test_failures_are_reported(engine: SparkEngine, scratch: Path) -> None:
    check_failures(engine)
    assert not [path for path in left(scratch) if path.name.startswith("tidyberg-shuffle")]


def test_a_cancel_leaves_no_directory(engine: SparkEngine, tmp_path: Path, scratch: Path) -> None:
    check_cancel(engine, tmp_path)
    assert not [path for path in left(scratch) if path.name.startswith("tidyberg-shuffle")]
