"""A compaction of a table on S3 in a process of its own, to be killed.

Run as a module: directory, settings as JSON, mode of rewriting, and optionally the size from which deletes are joined.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.s3_warehouse import OPTIONS, S3Warehouse
from tidyberg.model.options import RewriteMode


def main(directory: str, properties: str, mode: str, join_delete_size: str | None = None) -> None:
    lake = S3Warehouse(Path(directory), json.loads(properties))
    options = replace(OPTIONS, mode=RewriteMode(mode))
    if join_delete_size is not None:
        options = replace(options, join_delete_size=int(join_delete_size))
    with lake, make_control(lake) as control:
        control.compact(REF, options)


if __name__ == "__main__":
    main(*sys.argv[1:])
