"""Implements expire."""

from tidyberg.app import build_control
from tidyberg.cli.flags import OptionFlags
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.formatting import count, size
from tidyberg.cli.session import Session, standard_error
from tidyberg.cli.show_expiry import expiry_json, show_expiry
from tidyberg.cli.table_batch import NOTHING, TableBatch, TableOutcome
from tidyberg.cli.table_names import NamedTables
from tidyberg.control.control import Control
from tidyberg.errors import BadInput
from tidyberg.execute.engine import CancelToken
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.table import TableRef
from tidyberg.settings.catalogs import resolve_table


def expire(session: Session, named: NamedTables, options: ExpireOptions, *, dry_run: bool, fail_fast: bool) -> int:
    """Returns the exit code."""
    console, timezone = standard_error(), session.settings.timezone

    def run(control: Control, ref: TableRef, cancel: CancelToken) -> ExpiryResult:
        with watching(console, quiet=session.common.json) as on_event:
            return control.expire(ref, options, dry_run=dry_run, on_event=on_event, cancel=cancel)

    if (table := named.single) is not None:

        def single(cancel: CancelToken) -> ExpiryResult:
            with build_control(session.settings) as control:
                return run(
                    control, resolve_table(session.settings, control.catalog(session.common.catalog), table), cancel
                )

        result = run_cancellable(single, console)
        session.show(show_expiry(result, timezone), expiry_json(result))
        return _outcome(result).status or (NOTHING if result.outcome == "nothing" else 0)
    if options.snapshot_ids:
        raise BadInput("--snapshot needs exactly one table.", hint="Each snapshot belongs to one table.")
    batch = TableBatch(session, named, OptionFlags(), fail_fast=fail_fast)

    def one(control: Control, ref: TableRef, cancel: CancelToken) -> TableOutcome:
        result = run(control, ref, cancel)
        batch.show(show_expiry(result, timezone))
        return _outcome(result)

    return batch.run(("outcome", "snapshots", "files", "freed"), one)


def _outcome(result: ExpiryResult) -> TableOutcome:
    failure = result.failure
    cells = (result.outcome, count(result.snapshots_expired), count(result.files.files), size(result.files.bytes))
    return TableOutcome(
        str(result.table),
        expiry_json(result),
        cells if result.outcome != "nothing" else (result.outcome,),
        failure.exit_code if failure is not None else 0,
        reason=failure.message if failure is not None else "",
        left="tidy" if result.outcome == "nothing" and failure is None else "",
    )
