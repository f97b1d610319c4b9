"""Implements advise."""

from tidyberg.app import build_control
from tidyberg.cli.session import Session
from tidyberg.cli.show_advice import advice_json, show_advice, show_properties
from tidyberg.errors import BadInput
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
    shown = show_properties(advice, dry_run=dry_run) if only_properties else show_advice(advice)
    session.show(shown, advice_json(advice, dry_run=dry_run, only_properties=only_properties), soft_wrap=True)
