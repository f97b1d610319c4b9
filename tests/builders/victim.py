"""A compaction in a process of its own, to be killed.

Arguments: directory, engine, groups per commit, and optionally the size from which equality deletes are joined.
"""

import sys
from dataclasses import replace

from tests.builders.control import AT_ONCE, make_control
from tests.builders.events_table import REF
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import VerifyMode
from tidyberg.model.report import Event, StageStarted
from tidyberg.testing import Warehouse


def compact(
    directory: str,
    engine: str,
    commit_every: int | None = None,
    join_delete_size: int = AT_ONCE.join_delete_size,
) -> None:
    options = replace(AT_ONCE, commit_every=commit_every, join_delete_size=join_delete_size)
    with Warehouse(directory) as warehouse, make_control(warehouse, build_engine(engine)) as control:
        control.compact(REF, options, verify=VerifyMode.FULL, on_event=announce)


def build_engine(name: str) -> Engine:
    if name == "inline":
        return InlineEngine()
    from tidyberg.execute.spark.engine import SparkEngine

    return SparkEngine(master="local[2]")


def announce(event: Event) -> None:
    if isinstance(event, StageStarted):
        sys.stdout.write(f"{event.stage.value}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    compact(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
