"""One job that expires snapshots: it holds the table while it works, and records how it ended."""

from dataclasses import dataclass

from pyiceberg.catalog import Catalog

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import load_table
from tidyberg.control.context import JobPolicy, Services
from tidyberg.control.expiry_work import ExpiryRequest, ExpiryWork, expiry_result, planner_of
from tidyberg.control.held_table import HoldRequest, hold_table
from tidyberg.execute.engine import CancelToken
from tidyberg.model.expiry import EXPIRE, ExpiryOutcome, ExpiryResult
from tidyberg.model.report import EventSink, Notice
from tidyberg.observe.reachable import count_files


@dataclass(frozen=True)
class ExpiryJob:
    request: ExpiryRequest
    services: Services
    policy: JobPolicy
    catalog: Catalog

    def preview(self, emit: EventSink, cancel: CancelToken) -> ExpiryResult:
        """Says what `run` would do. Changes nothing, and takes no lease."""
        table = load_table(self.catalog, self.request.table)
        planner = planner_of(self.request, self.catalog, self.services, emit, cancel.raise_if_cancelled)
        with catalog_errors(self.request.table.catalog, what=str(self.request.table)):
            prepared = planner.prepare(table)
        for warning in prepared.decision.warnings:
            emit(Notice("warning", warning))
        outcome: ExpiryOutcome = "nothing" if prepared.removal.is_empty else "planned"
        return expiry_result(self.request.table, outcome, table, prepared, count_files(prepared.to_delete.files))

    def run(self, emit: EventSink, cancel: CancelToken) -> ExpiryResult:
        request = self.request
        asked = HoldRequest(
            request.table,
            request.job_id,
            EXPIRE,
            request.options.as_options(),
            submission_id=request.submission_id,
        )
        with hold_table(asked, self.services, self.policy, self.catalog, emit, cancel) as held:
            work = ExpiryWork(request, held)
            held.when_lost(work.hand_back)
            return work.run()
