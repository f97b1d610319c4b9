"""Spark starts during a job's first steps, and a start that is not needed leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.tasks import STORAGE
from tests.execute.spark_checks import check_results_and_progress, group_tasks
from tidyberg.errors import ConfigurationError
from tidyberg.execute.engine import CancelToken, StartsInBackground
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.spark.engine import SparkEngine

pytestmark = [
    pytest.mark.spark,
    # PySpark leaves the sockets of its actions to the garbage collector, and says so in a comment.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

_NOBODY_IS_LEFT = """
gone, alive = psutil.wait_procs(children, timeout=20)
assert not alive, alive
"""


def run_alone(code: str, scratch: Path) -> None:
    """Runs code in its own process, which must print nothing and leave no file."""
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in scratch.iterdir() if not path.name.startswith("hsperfdata")] == []


def test_a_run_uses_the_spark_that_was_started_early(tmp_path: Path) -> None:
    engine = SparkEngine("local[2]")
    assert isinstance(engine, StartsInBackground)
    assert not isinstance(InlineEngine(), StartsInBackground)
    try:
        engine.start_in_background()
        launch = engine._launch
        assert launch is not None
        check_results_and_progress(engine, tmp_path)
        assert engine._spark._gateway.proc is launch.process
    finally:
        engine.close()


def test_a_session_that_the_caller_has_stopped_does_not_take_its_place(tmp_path: Path) -> None:
    """PySpark keeps the JVM of a stopped session, with its memory and settings, and uses it for the next one."""
    from pyspark.sql import SparkSession

    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate().stop()
    test_a_run_uses_the_spark_that_was_started_early(tmp_path)


@pytest.mark.parametrize("seconds", [0, 1, 3])
def test_a_start_that_is_abandoned_ends_its_jvm_and_removes_its_files(tmp_path: Path, seconds: float) -> None:
    code = (
        "import psutil, time\n"
        "from tidyberg.execute.spark.engine import SparkEngine\n"
        "engine = SparkEngine('local[1]')\n"
        f"engine.start_in_background(); time.sleep({seconds})\n"
        "children = psutil.Process().children(recursive=True)\n"
        "assert children\n"
        "engine.close()\n"
    )
    run_alone(code + _NOBODY_IS_LEFT, tmp_path / "scratch")


def test_a_launch_that_no_engine_takes_ends_with_the_process(tmp_path: Path) -> None:
    launch = (
        "from tidyberg.execute.spark.launch import launch_in_background\n"
        "from tidyberg.execute.spark.session import engine_launch\n"
        "launch_in_background(*engine_launch('local[1]', '1g', {}, 'tidyberg'))\n"
    )
    run_alone(launch, tmp_path / "scratch")


def test_an_engine_takes_only_a_launch_with_its_own_settings() -> None:
    from tidyberg.execute.spark import launch as spark_launch

    waiting = spark_launch._PendingLaunch()
    try:
        waiting.put({"spark.master": "local[1]"}, {})
        assert waiting.take({"spark.master": "local[2]"}) is None
        taken = waiting.take({"spark.master": "local[1]"})
        assert taken is not None
        assert waiting.take({"spark.master": "local[1]"}) is None
        taken.abandon()
        assert taken.process.poll() is not None
    finally:
        waiting.abandon()


def test_if_the_early_start_of_spark_fails_the_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    engine = SparkEngine("local[1]")
    try:
        engine.start_in_background()
        with pytest.raises(ConfigurationError, match="needs Java 17"):
            list(engine.run(group_tasks(tmp_path, 1), STORAGE, cancel=CancelToken()))
    finally:
        engine.close()
