"""Advises on the write properties and the writers of a table, and sets the advised properties if asked."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import load_table
from tidyberg.control.complete_snapshots import require_all_snapshots
from tidyberg.control.context import Services
from tidyberg.control.table_properties import set_properties
from tidyberg.model.advice import Advice
from tidyberg.model.options import Calibration, PlanOptions, Resources
from tidyberg.model.table import Pinned, TableRef
from tidyberg.observe.pin import pin
from tidyberg.planning.advise import APPLIED_AT, Adviser
from tidyberg.planning.price import pricing_for


@dataclass(frozen=True)
class TableAdvice:
    ref: TableRef
    catalog: Catalog
    services: Services
    resources: Resources
    calibration: Callable[[], Calibration]
    options: PlanOptions
    window_ms: int

    def advise(self) -> Advice:
        require_all_snapshots(self.catalog)
        with catalog_errors(self.ref.catalog, what=str(self.ref)):
            pinned = pin(load_table(self.catalog, self.ref), self.ref)
        return self._adviser(pinned).advise()

    def apply(self) -> Advice:
        """Sets the advised properties, all in one commit. Returns the advice that was followed."""
        require_all_snapshots(self.catalog)
        table = load_table(self.catalog, self.ref)
        with catalog_errors(self.ref.catalog, what=str(self.ref)):
            advice = self._adviser(pin(table, self.ref)).advise()
            if not advice.properties:
                return advice
            wanted = {one.name: one.advised for one in advice.properties}
            wanted[APPLIED_AT] = str(self.services.now_ms())
            set_properties(self.catalog, self.ref, table, self.services, wanted)
        return replace(advice, has_changed=True)

    def _adviser(self, pinned: Pinned) -> Adviser:
        pricing = pricing_for(
            self.options,
            pinned.properties,
            self.services.prices,
            self.calibration(),
            self.resources,
            pinned.location,
        )
        return Adviser(pinned, self.options, pricing, self.services.now_ms(), self.window_ms)
