"""Python workers of a local Spark import the PySpark that is installed, which is compiled, not Spark's zip file."""

from pathlib import Path

import pytest

from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.execute.spark.launch import spark_home
from tidyberg.execute.spark.session import session_settings
from tidyberg.execute.spark.worker_daemon import leave_out_archives


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_workers_import_the_pyspark_that_is_installed() -> None:
    def where(_: object) -> list[str]:
        import pyspark

        return [str(pyspark.__file__)]

    engine = SparkEngine("local[1]")
    try:
        engine.start()
        (found,) = engine._spark.parallelize([0], 1).mapPartitions(where).collect()
    finally:
        engine.close()
    assert Path(found).parent == spark_home()


def test_archives_are_left_out_only_where_the_same_pyspark_is_left(tmp_path: Path) -> None:
    home, other = tmp_path / "own" / "pyspark", tmp_path / "other" / "pyspark"
    archive = home / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.touch()
    other.mkdir(parents=True)
    path = [str(archive), str(tmp_path / "nothing")]
    assert leave_out_archives([*path, str(home.parent)], home) == [str(tmp_path / "nothing"), str(home.parent)]
    assert leave_out_archives([*path, str(other.parent)], home) == [*path, str(other.parent)]
    assert leave_out_archives(path, home) == path


def test_only_a_local_spark_gets_this_daemon() -> None:
    assert "spark.python.daemon.module" in session_settings("local[2]", "1g", {})
    assert "spark.python.daemon.module" not in session_settings("spark://host:7077", "1g", {})
