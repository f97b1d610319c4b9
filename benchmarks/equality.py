"""A program that writes the equality delete files of benchmark tables with Iceberg's Java writers."""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.delete_files import COMMITS, Deletes
from benchmarks.java import delete_by_equality, open_session


def main() -> None:
    directory, tables = Path(sys.argv[1]), json.loads(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        session = open_session(directory, 2, Path(scratch))
        for table, (fields, rows) in tables.items():
            deletes = Deletes(**fields)
            keys = [deletes.event_ids(number, rows) for number in range(deletes.equality_files)]
            delete_by_equality(session, table, "event_id", keys, COMMITS)
        session.stop()


if __name__ == "__main__":
    main()
