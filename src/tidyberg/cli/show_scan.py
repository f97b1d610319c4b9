"""Shows the result of `tidyberg recover --scan`, as a table and as JSON."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidyberg.cli.formatting import plural, size
from tidyberg.control.scan import HOUR_MS, LEAST_AGE_HOURS, Scan

_MOST_SHOWN = 50


def show_scan(scan: Scan, name: str) -> RenderableType:
    lines: list[RenderableType] = []
    if scan.strays:
        table = Table("age", "size", "run", "file", box=None, pad_edge=False)
        for stray in scan.strays[:_MOST_SHOWN]:
            table.add_row(f"{stray.age_ms / HOUR_MS:.1f} h", size(stray.size), stray.run_id, stray.path)
        lines.append(table)
    if len(scan.strays) > _MOST_SHOWN:
        lines.append(Text(f"and {len(scan.strays) - _MOST_SHOWN:,} more"))
    total = size(sum(stray.size for stray in scan.strays))
    found = f"{plural(len(scan.strays), 'output')} of tidyberg ({total}) that no snapshot of {name} references"
    lines.append(Text(f"{found} and no job of the store claims" if scan.strays else f"no {found[2:]}"))
    if scan.claimed:
        lines.append(
            Text(f"{plural(scan.claimed, 'output')} belong to jobs that run or died: `tidyberg recover {name}`")
        )
    if scan.removed or scan.kept:
        lines.append(Text(f"{len(scan.removed):,} removed, {scan.kept:,} kept because they are too young"))
    elif scan.strays:
        lines.append(
            Text(f"Remove those older than {LEAST_AGE_HOURS:g} hours: tidyberg recover --scan {name} --remove")
        )
    return Group(*lines)


def scan_json(scan: Scan) -> dict[str, Any]:
    return {
        "strays": [
            {"path": s.path, "bytes": s.size, "age_seconds": s.age_ms // 1000, "run_id": s.run_id} for s in scan.strays
        ],
        "claimed": scan.claimed,
        "removed": list(scan.removed),
        "kept": scan.kept,
    }
