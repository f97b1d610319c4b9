"""Implements layout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidyberg.app import build_control
from tidyberg.cli.command_line import command_line
from tidyberg.cli.layout_svg import layout_svg
from tidyberg.cli.session import Session
from tidyberg.cli.show_layout import layout_json, show_layout
from tidyberg.errors import BadInput
from tidyberg.model.options import TABLE_ORDER
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options


def layout(session: Session, table: str, by: str | None, asked: Mapping[str, Any], svg: Path | None) -> None:
    if svg is not None and not svg.absolute().parent.is_dir():
        raise BadInput(f"There is no directory {svg.absolute().parent}.", hint="Create it, or choose another one.")
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(session.common.catalog), table)
        options = plan_options(session.settings, ref, {**asked, "sort": TABLE_ORDER if by is None else by})
        report = control.layout(ref, options)
    if svg is not None:
        svg.write_text(layout_svg(report), encoding="utf-8")
    flags: dict[str, Any] = {**asked, "sort": True} if by is None else {**asked, "sort_order": by}
    command = command_line(session, "compact", str(ref), **flags)
    session.show(show_layout(report, command), layout_json(report))
