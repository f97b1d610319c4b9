"""Observes a table and plans for it, with what this installation knows of its prices and its speed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.control.calibration import calibrate
from tidyberg.control.context import span_attributes
from tidyberg.control.remote_manifests import reading_on, resting_for
from tidyberg.execute.engine import Engine
from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources
from tidyberg.model.plan import Plan
from tidyberg.model.table import Pinned, TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import metadata_size, pin
from tidyberg.observe.reading import Elsewhere
from tidyberg.observe.resting import Resting
from tidyberg.observe.statistics import partition_statistics
from tidyberg.planning.decide import make_plan
from tidyberg.planning.document import plan_hash
from tidyberg.record.store import JobStore
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
    inline: Resources | None = None  # of this process, where plans that are better run here are

    def observe(self, table: Table, ref: TableRef, options: PlanOptions) -> Inventory:
        """Every file of the table."""
        return self._observe(table, ref, options, lambda _: None)

    def observe_and_plan(self, table: Table, ref: TableRef, options: PlanOptions) -> Plan:
        """The same plan as of every file; what it cannot take is only counted where the engine reads the manifests."""
        now_ms = self.now_ms()
        inventory = self._observe(table, ref, options, lambda pinned: resting_for(pinned, options, now_ms))
        return self.plan(inventory, options, now_ms=now_ms)

    def statistics(
        self, inventory: Inventory, options: PlanOptions, now_ms: int | None = None
    ) -> tuple[PartitionStatistics, ...]:
        return partition_statistics(
            inventory,
            small_file_threshold=options.small_file_threshold,
            hot_window_seconds=options.hot_window_seconds,
            now_ms=self.now_ms() if now_ms is None else now_ms,
        )

    def plan(
        self,
        inventory: Inventory,
        options: PlanOptions,
        only: frozenset[tuple[int, str]] | None = None,
        first_group: int = 0,
        now_ms: int | None = None,
    ) -> Plan:
        now_ms = self.now_ms() if now_ms is None else now_ms
        with self.tracer.span("planning") as span:
            make = partial(
                make_plan,
                inventory,
                self.statistics(inventory, options, now_ms),
                options,
                now_ms=now_ms,
                prices=self.prices,
                only=only,
                first_group=first_group,
            )
            plan = make(calibration=self._calibration(self.resources), resources=self.resources)
            if plan.better_inline and self.inline is not None:  # then it is priced for where it will run
                plan = make(calibration=self._calibration(self.inline), resources=self.inline)
                plan = replace(plan, better_inline=not plan.is_empty)
                plan = replace(plan, hash=plan_hash(plan))
            span.set(**span_attributes(plan.groups))
            return plan

    def _observe(
        self, table: Table, ref: TableRef, options: PlanOptions, resting: Callable[[Pinned], Resting | None]
    ) -> Inventory:
        with self.tracer.span("observe"), catalog_errors(ref.catalog, what=str(ref)):
            pinned = pin(table, ref, options.branch, metadata_size(table))
            elsewhere = None
            if self.engine_reads_above is not None:
                elsewhere = Elsewhere(self.engine_reads_above, reading_on(self.engine, table), resting(pinned))
            return take_inventory(table, pinned, self.cache, elsewhere)

    def _calibration(self, resources: Resources) -> Calibration:
        return calibrate(self.store.find(limit=CALIBRATING_JOBS), resources.name)
