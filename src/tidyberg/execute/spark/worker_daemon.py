"""`python -m tidyberg.execute.spark.worker_daemon`: Spark's daemon of Python workers, from modules that are compiled.

Spark puts a zip file of PySpark first on the path. It holds no bytecode, so that every start compiles PySpark again,
which takes half a second. Used by a local Spark of our own only, whose workers have the driver's PySpark installed.
"""

import os
import sys
from pathlib import Path


def leave_out_archives(path: list[str], spark_home: Path) -> list[str]:
    """The path without Spark's zip files, where it leads to the same PySpark without them."""
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
    from pyspark.daemon import manager

    manager()
