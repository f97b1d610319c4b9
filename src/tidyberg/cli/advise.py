"""Implements advise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidyberg.app import build_control, open_records
from tidyberg.cli.command_line import command_line
from tidyberg.cli.session import Session
from tidyberg.cli.show_advice import advice_json, show_advice, show_properties
from tidyberg.errors import BadInput
from tidyberg.model.sizes import MB, format_size
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options


def advise(session: Session, table: str, window_ms: int, *, write_properties: bool, apply: bool, dry_run: bool) -> None:
    if dry_run and not apply:
        raise BadInput("--dry-run says what --apply would do.", hint="Give both, or neither: advise changes nothing.")
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(session.common.catalog), table)
        adviser = control.advice(ref, plan_options(session.settings, ref, {}), window_ms)
        advice = adviser.apply() if apply and not dry_run else adviser.advise()
    only_properties = write_properties or apply
    setting = command_line(session, "advise", str(ref), "--apply")
    shown = show_properties(advice, setting, dry_run=dry_run) if only_properties else show_advice(advice, setting)
    session.show(shown, advice_json(advice, dry_run=dry_run, only_properties=only_properties), soft_wrap=True)


MOST_LOG_BYTES = 256 * MB


def advise_layout(
    session: Session, table: str, paths: Sequence[Path], dialect: str | None, *, scan_reports: bool
) -> None:
    from tidyberg.cli.show_query_advice import query_advice_json, show_query_advice
    from tidyberg.planning.workload.query_log import QueryLog, check_dialect, json_log, sql_log

    check_dialect(dialect)
    logs = [(json_log if path.suffix in (".jsonl", ".ndjson", ".json") else sql_log)(_text(path)) for path in paths]
    log = sum(logs, QueryLog())
    records = open_records(session.settings)
    with build_control(session.settings, records.store) as control:
        ref = resolve_table(session.settings, control.catalog(session.common.catalog), table)
        reports = records.ledger.scan_reports(ref) if scan_reports else []
        if scan_reports and not reports:
            raise BadInput(
                f"No scan of {ref} was reported to this job store.",
                hint="Let a catalog or an engine send its metrics to a service that uses this store: docs/advise.md.",
            )
        adviser = control.query_adviser(ref, plan_options(session.settings, ref, {}))
        advice = adviser.advise(log, reports, dialect)

    def compact(**flags: Any) -> str:
        return command_line(session, "compact", str(ref), **flags)

    session.show(show_query_advice(advice, compact), query_advice_json(advice, compact), soft_wrap=True)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_LOG_BYTES:
            raise BadInput(f"{path} is larger than {format_size(MOST_LOG_BYTES)}.", hint="Give its newest part.")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
