"""Implements `tidyberg audit`: checks replace snapshots and sets the exit code."""

from tidyberg.app import build_control
from tidyberg.cli.as_json import plain
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.session import Session, standard_error
from tidyberg.cli.show_audit import show_audit
from tidyberg.errors import TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.audit import AuditReport, Verdict
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options

DAMAGE = 6


def audit(session: Session, table: str, branch: str, snapshot_id: int | None) -> int:
    """Returns the exit code: 6 if rows were damaged, 5 if the named snapshot cannot be audited."""
    settings, console = session.settings, standard_error()

    def work(cancel: CancelToken) -> AuditReport:
        with build_control(settings) as control, watching(console, quiet=session.common.json) as on_event:
            ref = resolve_table(settings, control.catalog(session.common.catalog), table)
            return control.audit(
                ref,
                branch=branch,
                snapshot_id=snapshot_id,
                on_event=on_event,
                cancel=cancel,
                key_memory_bytes=plan_options(settings, ref, {}).join_delete_size,
            )

    report = run_cancellable(work, console)
    session.show(show_audit(report, timezone=settings.timezone), {**plain(report), "damaged": report.is_damaged})
    if report.is_damaged:
        return DAMAGE
    unknown = snapshot_id is not None and report.snapshots[0].verdict is Verdict.NOT_AUDITED
    return TidybergError.exit_code if unknown else 0
