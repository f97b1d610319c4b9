"""Implements `policies`: shows the policies of a catalog for tables, and where tidyberg's own settings differ."""

from dataclasses import dataclass

from tidyberg.app import build_control
from tidyberg.catalog.open import load_table
from tidyberg.cli.flags import OptionFlags
from tidyberg.cli.session import Session
from tidyberg.cli.show_policies import policies_json, show_policies
from tidyberg.cli.table_batch import TableBatch, TableOutcome
from tidyberg.cli.table_names import NamedTables
from tidyberg.control.control import Control
from tidyberg.control.maintenance.request import report_policies
from tidyberg.errors import BadInput
from tidyberg.execute.engine import CancelToken
from tidyberg.model.catalog_policies import PolicyReport
from tidyberg.model.table import TableRef
from tidyberg.settings.catalogs import resolve_table

DRIFT = 1


@dataclass(frozen=True)
class PoliciesCommand:
    session: Session
    check: bool  # drift is a failure

    def show(self, named: NamedTables, *, fail_fast: bool) -> int:
        """Returns the exit code: 2 if a policy cannot be understood, and 1 if there is drift and `check` is set."""
        if (table := named.single) is None:
            return self._show_all(TableBatch(self.session, named, OptionFlags(), fail_fast=fail_fast))
        with build_control(self.session.settings) as control:
            ref = resolve_table(self.session.settings, control.catalog(self.session.common.catalog), table)
            report = self._report(control, ref)
        self.session.show(show_policies(report), policies_json(report))
        return _status(report) or self._drift(bool(report.drift))

    def _show_all(self, batch: TableBatch) -> int:
        has_drift: list[bool] = []

        def one(control: Control, ref: TableRef, _: CancelToken) -> TableOutcome:
            report = self._report(control, ref)
            has_drift.append(bool(report.drift))
            batch.show(show_policies(report))
            cells = tuple(str(len(each)) for each in (report.policies, report.drift, report.notes))
            return TableOutcome(str(ref), policies_json(report), cells, _status(report))

        return batch.run(("policies", "drift", "notes"), one) or self._drift(any(has_drift))

    def _drift(self, has_drift: bool) -> int:
        return DRIFT if has_drift and self.check else 0

    def _report(self, control: Control, ref: TableRef) -> PolicyReport:
        table = load_table(control.catalog(ref.catalog), ref)
        return report_policies(self.session.settings, ref, table)


def _status(report: PolicyReport) -> int:
    return BadInput.exit_code if any(note.is_error for note in report.notes) else 0
