"""`python -m tidyberg.execute.spark.worker_daemon` runs Spark's daemon of Python workers with compiled modules.

Spark puts a zip file of PySpark first on the path. It contains no bytecode, so every start would compile PySpark again,
which takes half a second. Only our own local Spark uses this, because its workers have the driver's PySpark installed.
"""

import os
import sys
from pathlib import Path

from tidyberg.execute.spark.private import run_worker_daemon


def leave_out_archives(path: list[str], spark_home: Path) -> list[str]:
    """Remove Spark's zip files from the path, if it then leads to the same PySpark."""
    archives = {str(archive) for archive in (spark_home / "python" / "lib").glob("*.zip")}
    kept = [entry for entry in path if entry not in archives]
    for entry in kept:
        found = Path(entry) / "pyspark"
        if found.is_dir():
            return kept if found.samefile(spark_home) else path
    return path


if __name__ == "__main__":
    if home := os.environ.get("SPARK_HOME"):
        sys.path[:] = leave_out_archives(sys.path, Path(home))
    run_worker_daemon()
