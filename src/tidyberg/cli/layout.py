"""Implements layout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidyberg.app import build_control
from tidyberg.cli.command_line import command_line
from tidyberg.cli.layout_svg import layout_svg
from tidyberg.cli.picture_files import check_picture, write_picture
from tidyberg.cli.session import Session
from tidyberg.cli.show_layout import layout_json, show_layout
from tidyberg.errors import BadSortOrder
from tidyberg.model.options import TABLE_ORDER
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options


def layout(session: Session, table: str, by: str | None, asked: Mapping[str, Any], svg: Path | None) -> None:
    check_picture(svg)
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(session.common.catalog), table)
        options = plan_options(session.settings, ref, {**asked, "sort": TABLE_ORDER if by is None else by})
        try:
            report = control.layout(ref, options)
        except BadSortOrder as error:
            if by is not None:
                raise
            # The hint of a plan names flags that this command does not have.
            raise BadSortOrder(error.message, hint='Name a column or an order: --by "a, b desc".') from None
    if svg is not None:
        write_picture(svg, layout_svg(report))
    flags: dict[str, Any] = {**asked, "sort": True} if by is None else {**asked, "sort_order": by}
    command = command_line(session, "compact", str(ref), **flags)
    session.show(show_layout(report, command), layout_json(report))
