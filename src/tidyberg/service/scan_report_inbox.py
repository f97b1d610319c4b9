"""Takes scan reports: checks the caller and the table, and adds the report to the totals of the day."""

from collections.abc import Callable
from dataclasses import dataclass

from tidyberg.model.principal import Principal, Role
from tidyberg.model.scan_reports import ScanReportTotals
from tidyberg.model.table import TableRef
from tidyberg.record.ledger import Ledger
from tidyberg.service.access import Access
from tidyberg.service.audit_log import AuditLog
from tidyberg.service.catalog_lookup import CatalogLookup
from tidyberg.service.report_parsing import ScanReport

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class ScanReportInbox:
    ledger: Ledger
    audit: AuditLog
    access: Access
    lookup: CatalogLookup
    now_ms: Callable[[], int]

    def receive(
        self, read: Callable[[], ScanReport | None], who: Principal, target: str, table: Callable[[], TableRef]
    ) -> None:
        """Takes a report. The audit log has the first of each table and day, and every one that was refused."""
        with self.audit.acting(who, "scan.report", target) as act:
            self.access.require(who, Role.OPERATOR)
            ref = table()
            act.tenant = self.access.tenant_for(who, ref, None)
            report = read()
            self.lookup.table(ref)  # raises if there is no such table; a catalog that is down does not matter
            if report is None:
                act.is_routine = True
                return
            totals = ScanReportTotals(
                self.now_ms() // _DAY_MS,
                report.shape,
                1,
                report.result_files,
                report.skipped_files,
                report.result_bytes,
                report.planning_nanoseconds,
            )
            act.is_routine = not self.ledger.add_scan_report(ref, totals)
