"""A `Control` over a local warehouse, and the traces that its jobs leave in a table."""

from pathlib import Path

from pyiceberg.table import Table

from tidyberg.commit.fence import PREFIX
from tidyberg.commit.new_snapshot import CHUNK, JOB_ID
from tidyberg.control.control import Control
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.retry import RetryPolicy
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse


def make_control(warehouse: Warehouse, engine: Engine | None = None, **overrides: object) -> Control:
    settings: dict[str, object] = {
        "open_catalog": lambda _: warehouse.catalog,
        "open_engine": lambda: engine or InlineEngine(),
        "retry": RetryPolicy(retries=30, min_wait_ms=1, max_wait_ms=20),
        **overrides,
    }
    if "store" not in settings:
        settings["store"] = SqliteStore(warehouse.directory / "jobs.db", is_alive)
    return Control(**settings)  # type: ignore[arg-type]


AT_ONCE = PlanOptions(strategy=Strategy.FULL, min_input_files=2)

ONE_BY_ONE = PlanOptions(strategy=Strategy.FULL, min_input_files=2, commit_every=1)


def chunks(table: Table) -> list[tuple[str, int]]:
    """Returns the job id and chunk number of every replace snapshot, oldest first."""
    summaries = [
        snapshot.summary.additional_properties for snapshot in table.refresh().metadata.snapshots if snapshot.summary
    ]
    return [(summary[JOB_ID], int(summary[CHUNK])) for summary in summaries if JOB_ID in summary]


def fences(table: Table) -> list[str]:
    return [name for name in table.refresh().metadata.refs if name.startswith(PREFIX)]


def leftovers(warehouse: Warehouse, table: Table) -> set[str]:
    """Returns the files in the table's directory that no snapshot references. Java's checksum files do not count."""
    found = warehouse.files_on_disk(table) - warehouse.referenced_files(table)
    return {path for path in found if Path(path).suffix != ".crc"}
