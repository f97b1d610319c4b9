"""Observes a table and plans for it, with what this installation knows of its prices and its speed."""

from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.table import Table

from tidyberg.commit import objects
from tidyberg.control.calibration import calibrate
from tidyberg.control.far_manifests import reading_on
from tidyberg.control.workbench import work_of
from tidyberg.execute.engine import Engine
from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources
from tidyberg.model.plan import Plan
from tidyberg.model.table import TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import Elsewhere, take_inventory
from tidyberg.observe.pin import pin
from tidyberg.observe.statistics import partition_statistics
from tidyberg.planning.decide import make_plan
from tidyberg.record.store import JobStore
from tidyberg.settings.catalog_errors import catalog_errors
from tidyberg.telemetry.traces import Tracer

CALIBRATING_JOBS = 200  # most may have found nothing to do


@dataclass(frozen=True)
class Planner:
    store: JobStore
    cache: ManifestCache
    resources: Resources
    prices: Prices
    now_ms: Callable[[], int]
    tracer: Tracer
    engine: Callable[[], Engine]
    engine_reads_above: int | None = None  # bytes of manifests; None: they are always read here

    def observe(self, table: Table, ref: TableRef, options: PlanOptions) -> Inventory:
        with self.tracer.span("observe"), catalog_errors(ref.catalog, what=str(ref)):
            pinned = pin(table, ref, options.branch)
            return take_inventory(table, pinned, self.cache, self._elsewhere(table), objects.fetch)

    def statistics(self, inventory: Inventory, options: PlanOptions) -> tuple[PartitionStatistics, ...]:
        return partition_statistics(
            inventory,
            small_file_threshold=options.small_file_threshold,
            hot_window_seconds=options.hot_window_seconds,
            now_ms=self.now_ms(),
        )

    def plan(
        self,
        inventory: Inventory,
        options: PlanOptions,
        only: frozenset[tuple[int, str]] | None = None,
        first_group: int = 0,
    ) -> Plan:
        with self.tracer.span("planning") as span:
            plan = make_plan(
                inventory,
                self.statistics(inventory, options),
                options,
                now_ms=self.now_ms(),
                prices=self.prices,
                calibration=self._calibration(),
                resources=self.resources,
                only=only,
                first_group=first_group,
            )
            span.set(**work_of(plan.groups))
            return plan

    def _elsewhere(self, table: Table) -> Elsewhere | None:
        if self.engine_reads_above is None:
            return None
        return Elsewhere(self.engine_reads_above, reading_on(self.engine, table))

    def _calibration(self) -> Calibration:
        return calibrate(self.store.find(limit=CALIBRATING_JOBS), self.resources.name)
