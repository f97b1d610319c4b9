"""Writes the files of a benchmark's tables as Spark does, through Iceberg's Java writers; a program of its own."""

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
