"""The Spark engine on a real standalone cluster and through a real Connect server, with nothing of ours installed."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execute.servers import REPOSITORY, bare_python, connect_server, standalone_cluster
from tests.execute.shuffle_checks import (
    check_a_failed_attempt_is_not_seen,
    check_every_chunk_arrives_once,
    check_joined_deletes,
    check_sort,
)
from tests.execute.shuffle_checks import check_cancel as check_cancelled_shuffle
from tests.execute.spark_checks import (
    check_cancel,
    check_damaged_file,
    check_engine_reads,
    check_manifests,
    check_results_and_progress,
    check_storage_error,
)
from tests.servers.jars import FAST_START
from tests.servers.server import free_port
from tidyberg.errors import EngineError
from tidyberg.execute.engine import CancelToken
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.execute.spark.shipping import archive_bytes

pytestmark = [
    pytest.mark.spark,
    # PySpark leaves the sockets of its actions to the garbage collector, and says so in a comment.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module", name="python")
def _python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python") / "bare")


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture(scope="module", name="standalone")
def _standalone(cluster: str, python: Path) -> Iterator[SparkEngine]:
    conf = {
        "spark.pyspark.python": str(python),
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": FAST_START,
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    }
    engine = SparkEngine(cluster, conf=conf)
    yield engine
    engine.close()


@pytest.fixture(scope="module", name="connect")
def _connect(cluster: str, python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with connect_server(tmp_path_factory.mktemp("connect"), cluster, python) as address:
        engine = SparkEngine(connect=address)
        yield engine
        engine.close()


@pytest.fixture(name="engine", params=["standalone", "connect"])
def _engine(request: pytest.FixtureRequest) -> SparkEngine:
    engine = request.getfixturevalue(request.param)
    assert isinstance(engine, SparkEngine)
    return engine


def test_executors_cannot_see_tidyberg_by_themselves(python: Path) -> None:
    done = subprocess.run([python, "-c", "import tidyberg"], capture_output=True, text=True, check=False)
    assert "No module named 'tidyberg'" in done.stderr
    assert subprocess.run([python, "-c", "import pyarrow, pyspark"], check=False).returncode == 0


def test_results_and_progress(engine: SparkEngine, tmp_path: Path) -> None:
    check_results_and_progress(engine, tmp_path)


def test_a_second_run_works_too(engine: SparkEngine, tmp_path: Path) -> None:
    check_results_and_progress(engine, tmp_path)


def test_a_damaged_file_is_named(engine: SparkEngine, tmp_path: Path) -> None:
    check_damaged_file(engine, tmp_path)


def test_a_storage_failure_is_reported_after_retries(engine: SparkEngine, tmp_path: Path) -> None:
    check_storage_error(engine, tmp_path)


def test_manifests_are_read_as_they_are_here(engine: SparkEngine, tmp_path: Path) -> None:
    check_manifests(engine, tmp_path)


def test_huge_tables_are_read_and_listed_as_they_are_here(engine: SparkEngine, tmp_path: Path) -> None:
    check_engine_reads(engine, tmp_path)


def test_cancel(engine: SparkEngine, tmp_path: Path) -> None:
    check_cancel(engine, tmp_path)


def test_a_shuffle_brings_every_chunk_once(engine: SparkEngine) -> None:
    check_every_chunk_arrives_once(engine)


def test_a_shuffle_does_not_see_attempts_that_failed_or_were_killed(engine: SparkEngine, tmp_path: Path) -> None:
    check_a_failed_attempt_is_not_seen(engine, tmp_path, ("storage", "kill"))


def test_a_large_group_is_sorted(engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_sort(engine, tmp_path, monkeypatch)


def test_equality_deletes_are_joined_with_the_rows(engine: SparkEngine, tmp_path: Path) -> None:
    check_joined_deletes(engine, tmp_path)


def test_a_shuffle_can_be_cancelled(engine: SparkEngine, tmp_path: Path) -> None:
    check_cancelled_shuffle(engine, tmp_path)


def test_no_server_is_one_line() -> None:
    engine = SparkEngine(connect=f"sc://127.0.0.1:{free_port()}/;token=hush-hush")
    with pytest.raises(EngineError, match="does not answer") as raised:
        list(engine.run([None], None, cancel=CancelToken()))  # type: ignore[list-item, arg-type]
    assert "\n" not in str(raised.value)
    assert "hush" not in str(raised.value)


def test_the_archive_is_the_same_every_time() -> None:
    assert archive_bytes() == archive_bytes()
