"""Tables whose partition spec changes, and the move of their files to the current spec."""

from collections.abc import Sequence
from typing import Any

from pyiceberg.table import Table
from pyiceberg.transforms import Transform

from tests.builders.events_table import compact as compact_events
from tidyberg.execute.engine import Engine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.report import CompactionResult
from tidyberg.testing import Warehouse

MOVE = PlanOptions(strategy=Strategy.FULL, min_input_files=2, hot_commits=10_000, rewrite_to_current_spec=True)


def change_spec(table: Table, *fields: tuple[str, Transform[Any, Any]], remove: Sequence[str] = ()) -> Table:
    with table.refresh().update_spec() as update:
        for name in remove:
            update.remove_field(name)
        for number, (source, transform) in enumerate(fields):
            update.add_field(source, transform, f"{source.replace('.', '_')}_{len(table.specs())}_{number}")
    return table.refresh()


def move(warehouse: Warehouse, *, engine: Engine | None = None, how: PlanOptions = MOVE) -> CompactionResult:
    return compact_events(warehouse, how, engine=engine, replans=0)
