"""Implements pause, resume and paused."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tidyberg.cli.flags import ServerFlags
from tidyberg.cli.remote import connect, show
from tidyberg.client import Pause


def pause(server: ServerFlags, table: str, catalog: str | None, reason: str, hours: float | None) -> None:
    until = None if hours is None else datetime.now(UTC) + timedelta(hours=hours)
    with connect(server) as client:
        made = client.pause(table, reason=reason, until=until, catalog=catalog)
    words = f"{made.namespace}.{made.table} is paused {_until(made)}; `tidyberg resume {table}` ends it"
    show(server, Text(words), made.model_dump(mode="json"))


def resume(server: ServerFlags, table: str, catalog: str | None) -> None:
    with connect(server) as client:
        client.resume(table, catalog=catalog)
    show(server, Text(f"{table} takes jobs again"), {"resumed": table})


def paused(server: ServerFlags) -> None:
    with connect(server) as client:
        found = client.pauses()
    show(server, _show_pauses(found), {"pauses": [one.model_dump(mode="json") for one in found]})


def _show_pauses(found: Sequence[Pause]) -> RenderableType:
    if not found:
        return Text("no table is paused")
    table = Table("catalog", "table", "by", "since", "until", "why", box=None, pad_edge=True, header_style="dim")
    for one in found:
        name = f"{one.namespace}.{one.table}"
        table.add_row(one.catalog, name, one.paused_by, _time(one.since), _until(one), one.reason)
    return table


def _until(pause: Pause) -> str:
    return "until someone resumes it" if pause.until is None else f"until {_time(pause.until)}"


def _time(then: datetime) -> str:
    return then.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
