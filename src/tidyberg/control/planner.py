"""Observes a table and plans for it, with the prices and the measured speed of this installation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.control.calibration import calibrate
from tidyberg.control.context import span_attributes
from tidyberg.control.remote_manifests import counting_rule, reading_on
from tidyberg.execute.engine import Engine
from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.layout_report import LayoutReport
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources
from tidyberg.model.plan import Plan
from tidyberg.model.sort_key import SortKey
from tidyberg.model.table import Pinned, TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.counted_files import CountingRule
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.key_bounds import bound_columns, read_key_bounds
from tidyberg.observe.pin import metadata_size, pin
from tidyberg.observe.reading import RemoteReader
from tidyberg.observe.statistics import partition_statistics
from tidyberg.planning.decide import make_plan
from tidyberg.planning.document import plan_hash
from tidyberg.planning.layout_report import layout_report
from tidyberg.planning.sort_orders import asked_sort_key, sort_key_for
from tidyberg.record.store import JobStore
from tidyberg.telemetry.traces import Tracer

CALIBRATING_JOBS = 200  # many of them because most jobs find nothing to do


@dataclass(frozen=True)
class Planner:
    store: JobStore
    cache: ManifestCache
    resources: Resources
    prices: Prices
    now_ms: Callable[[], int]
    tracer: Tracer
    engine: Callable[[], Engine]
    engine_reads_above: int | None = None  # bytes of manifests; None: this process always reads them
    inline: Resources | None = None  # of this process, for plans that are better run here

    def observe(self, table: Table, ref: TableRef, options: PlanOptions) -> Inventory:
        """Lists every file of the table."""
        return self._observe(table, ref, options, lambda _: None)

    def observe_and_plan(self, table: Table, ref: TableRef, options: PlanOptions) -> Plan:
        """Makes the same plan as from a full inventory.

        If the engine reads the manifests, files that no plan can take are only counted.
        """
        now_ms = self.now_ms()

        def counting(pinned: Pinned) -> CountingRule | None:
            # The order of files concerns every file, so none is only counted.
            is_sorted = sort_key_for(options, pinned) is not None
            return None if is_sorted else counting_rule(pinned, options, now_ms)

        inventory = self._observe(table, ref, options, counting)
        return self.plan(inventory, options, now_ms=now_ms)

    def layout(self, table: Table, ref: TableRef, options: PlanOptions) -> LayoutReport:
        """Plans a sort, and describes the layout before and after it."""
        inventory = self.observe(table, ref, options)
        key = asked_sort_key(options, inventory.pinned)
        assert key is not None, "the options of a layout name an order"
        return layout_report(inventory, key, self.plan(inventory, options), options.max_overlap_depth)

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
            plan = make(calibration=self.calibration(self.resources), resources=self.resources)
            if plan.better_inline and self.inline is not None:  # price it for the engine that will run it
                plan = make(calibration=self.calibration(self.inline), resources=self.inline)
                plan = replace(plan, better_inline=not plan.is_empty)
                plan = replace(plan, hash=plan_hash(plan))
            span.set(**span_attributes(plan.groups))
            return plan

    def _observe(
        self, table: Table, ref: TableRef, options: PlanOptions, counting: Callable[[Pinned], CountingRule | None]
    ) -> Inventory:
        with self.tracer.span("observe"), catalog_errors(ref.catalog, what=str(ref)):
            pinned = pin(table, ref, options.branch, metadata_size(table))
            remote = None
            if self.engine_reads_above is not None:
                remote = RemoteReader(self.engine_reads_above, reading_on(self.engine, table.io), counting(pinned))
            inventory = take_inventory(table, pinned, self.cache, remote)
            key = sort_key_for(options, pinned)
            return inventory if key is None else self._with_bounds(table, inventory, key)

    def _with_bounds(self, table: Table, inventory: Inventory, key: SortKey) -> Inventory:
        """Adds the bounds of the key's columns, which no other plan needs."""
        fields = tuple(dict.fromkeys(field.source_id for field in key.fields))
        remote = None
        size = sum(info.length for info in inventory.manifests if not info.holds_deletes)
        if self.engine_reads_above is not None and size > self.engine_reads_above:
            remote = reading_on(self.engine, table.io, bound_columns(fields))
        return replace(inventory, key_bounds=read_key_bounds(table.io, inventory, fields, remote))

    def calibration(self, resources: Resources) -> Calibration:
        return calibrate(self.store.find(limit=CALIBRATING_JOBS), resources.name)
