"""Measures Iceberg's Java action on the same copy, in a Spark session with Iceberg's jar."""

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidyberg.benchmarking.copy_table import write_metadata
from tidyberg.benchmarking.scratch import CATALOG, REF, Scratch, require_local
from tidyberg.errors import BadInput, EngineError
from tidyberg.execute.spark.session import first_line, session_of, start_classic, stop_classic

_RUNTIME = "iceberg-spark-runtime"
_HINT = "Add --spark-conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0."
# A usual heap for such a job, and only local addresses.
_LOCAL = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def require_runtime(conf: Mapping[str, str]) -> None:
    if not any(
        _RUNTIME in conf.get(key, "") for key in ("spark.jars.packages", "spark.jars", "spark.driver.extraClassPath")
    ):
        raise BadInput("Java's action needs Iceberg's runtime in the Spark session.", hint=_HINT)


def measure_java(
    scratch: Scratch, document: dict[str, Any], target_bytes: int, master: str, conf: Mapping[str, str]
) -> float:
    """Returns the seconds of the second call. The first call warms up the session.

    A Hadoop catalog needs no jar but Iceberg's own. Its first version is the copy.
    """
    warehouse = require_local(scratch)
    metadata = warehouse / REF.namespace[0] / REF.name / "metadata"
    write_metadata(document, scratch.io, f"{scratch.location}/metadata/v1.metadata.json")
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", **_LOCAL, **conf, **_catalog(warehouse)}
    session = session_of(start_classic(master, "tidyberg-bench", settings, scratch.directory / "java.log"))
    try:
        seconds = 0.0
        for _ in range(2):
            _back_to_first(metadata)
            started = time.perf_counter()
            session.sql(
                f"CALL {CATALOG}.system.rewrite_data_files(table => '{REF}', options => "
                f"map('rewrite-all', 'true', 'target-file-size-bytes', '{target_bytes}'))"
            ).collect()
            seconds = time.perf_counter() - started
        return seconds
    except Exception as error:  # read the message now, before the JVM ends
        raise EngineError(
            f"Java's action failed: {_cause(str(error))}", hint="Leave out --against to measure tidyberg alone."
        ) from error
    finally:
        stop_classic(session)


def _catalog(warehouse: Path) -> dict[str, str]:
    here = f"spark.sql.catalog.{CATALOG}"
    return {
        here: "org.apache.iceberg.spark.SparkCatalog",
        f"{here}.type": "hadoop",
        f"{here}.warehouse": warehouse.as_uri(),
        f"{here}.cache-enabled": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }


def _cause(words: str) -> str:
    """Returns the line with the exception. The first line names only the call."""
    return first_line("\n".join(line for line in words.splitlines() if "Exception" in line) or words)


def _back_to_first(metadata: Path) -> None:
    for later in metadata.glob("v[2-9]*.metadata.json"):
        later.unlink()
    for leftover in metadata.glob(".*.crc"):
        with contextlib.suppress(FileNotFoundError):
            leftover.unlink()
    (metadata / "version-hint.text").write_text("1")
