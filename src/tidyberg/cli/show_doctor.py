"""Shows the checks of `doctor`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tidyberg.cli.formatting import plural

State = Literal["ok", "warn", "fail"]
_STYLES: dict[State, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True, slots=True)
class Check:
    state: State
    name: str
    found: str
    cure: str | None = None


def show_checks(checks: Sequence[Check]) -> Group:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        words = Text(check.found)
        if check.cure:
            words.append(f"\n→ {check.cure}", style=_STYLES[check.state])
        table.add_row(Text(check.state, style=_STYLES[check.state]), check.name, words)
    return Group(table, Text(), Text(_verdict(checks), style="bold"))


def _verdict(checks: Sequence[Check]) -> str:
    failed = sum(check.state == "fail" for check in checks)
    warned = sum(check.state == "warn" for check in checks)
    if failed:
        return f"{failed} of {plural(len(checks), 'check')} failed"
    return f"ready, with {warned} warning{'s' * (warned != 1)}" if warned else "ready"
