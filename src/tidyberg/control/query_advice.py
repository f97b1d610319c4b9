"""Advises on the layout of a table from its queries: reads bounds and a sample, and lets `planning` decide."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import load_table
from tidyberg.control.planner import Planner
from tidyberg.control.row_sample import SampleReader
from tidyberg.model.inventory import Inventory
from tidyberg.model.options import PlanOptions
from tidyberg.model.scan_reports import ScanReportTotals
from tidyberg.model.table import TableRef
from tidyberg.model.workload import QueryAdvice, ScanFilter, Workload
from tidyberg.observe.file_bounds import read_file_bounds
from tidyberg.planning.file_sizes import resolve_sizes
from tidyberg.planning.workload.query_log import QueryLog
from tidyberg.planning.workload.recommend import Recommender, filter_columns, only_columns
from tidyberg.planning.workload.report_filters import shape_condition, shape_words
from tidyberg.planning.workload.sampling import choose_files
from tidyberg.planning.workload.sql_queries import QueryReader
from tidyberg.verify.bounds import bounded_columns

MOST_COLUMNS = 16  # whose bounds and rows are read; conditions on others rule nothing out


@dataclass(frozen=True)
class QueryAdviser:
    ref: TableRef
    catalog: Catalog
    planner: Planner
    options: PlanOptions
    should_stop: Callable[[], bool] = lambda: False

    def advise(
        self, log: QueryLog, reports: Sequence[ScanReportTotals] = (), dialect: str | None = None
    ) -> QueryAdvice:
        """Recommends a layout for the queries of a log and for the scans that engines reported. It changes nothing."""
        table = load_table(self.catalog, self.ref)
        with catalog_errors(self.ref.catalog, what=str(self.ref)):
            inventory = self.planner.observe(table, self.ref, self.options)
            workload = self._workload(inventory, log, dialect) + _reported(reports)
            return self._advise(table, inventory, workload)

    def _workload(self, inventory: Inventory, log: QueryLog, dialect: str | None) -> Workload:
        now = datetime.fromtimestamp(self.planner.now_ms() / 1000, UTC).replace(tzinfo=None)
        found = QueryReader(self.ref, inventory.pinned.schema, now, dialect).workload(log.queries)
        unreadable = (*log.unreadable, *found.unreadable)
        return replace(found, queries=found.queries + len(log.unreadable), unreadable=unreadable)

    def _advise(self, table: Table, inventory: Inventory, workload: Workload) -> QueryAdvice:
        workload = _on_columns(workload, inventory)
        columns = [name for name, _ in filter_columns(workload.filters)[:MOST_COLUMNS]]
        files = read_file_bounds(table.io, inventory, columns)
        sampler = SampleReader(table.io, inventory, columns, self.should_stop)
        sizes = resolve_sizes(self.options, inventory.pinned.properties)
        unsampled = Recommender(self.ref, workload, files, sampler.read(()), sizes.target, sizes.small)
        if not columns or not len(files):
            return unsampled.recommend()
        sample = sampler.read(choose_files(files, unsampled.file_reads()))
        return replace(unsampled, sample=sample).recommend()


def _on_columns(workload: Workload, inventory: Inventory) -> Workload:
    """Keeps conditions on columns that have one value per row. Lists and maps have no useful bounds."""
    known = frozenset(one.name for one in bounded_columns(inventory.pinned.schema).values() if not one.repeated)
    filters = tuple(replace(one, condition=only_columns(one.condition, known)) for one in workload.filters)
    return replace(workload, filters=filters)


def _reported(reports: Sequence[ScanReportTotals]) -> Workload:
    filters = []
    for one in reports:
        condition = shape_condition(one.shape)
        filters.append(ScanFilter(condition, float(one.reports), f"reported scans: {shape_words(condition)}"))
    return Workload(tuple(filters))
