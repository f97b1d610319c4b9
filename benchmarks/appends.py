"""A program that writes the data files of benchmark tables with Spark and Iceberg's Java writers."""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.java import append_files, open_session


def main() -> None:
    directory, tables = Path(sys.argv[1]), json.loads(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        session = open_session(directory, 2, Path(scratch))
        for table, rows in tables.items():
            append_files(session, table, Path(rows))
        session.stop()


if __name__ == "__main__":
    main()
