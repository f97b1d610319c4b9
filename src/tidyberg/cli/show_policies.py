"""Shows the policies that a catalog stores for a table, and how tidyberg's own settings differ."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tidyberg.cli.formatting import size
from tidyberg.cli.listing import Listing
from tidyberg.model.catalog_policies import PolicyDrift, PolicyReport, PolicyValue

_SIZES = ("data.target_file_size",)


def show_policies(report: PolicyReport) -> Group:
    ref = report.table
    does = "obeys" if report.is_obeyed else "does not obey"
    headline = f" · {_policies(len(report.policies))} in catalog {ref.catalog}, which maintain {does}"
    parts: list[RenderableType] = [Text.assemble((str(ref), "bold"), headline)]
    if report.policies:
        parts += [Text(), _policy_listing(report)]
    if report.values:
        parts += [Text(), _value_listing(report)]
    if report.notes:
        parts.append(Text())
        parts += [Text(f"! {note}", style="bold red" if note.is_error else "yellow") for note in report.notes]
    keys = dict.fromkeys(_dashed(each.key) for each in report.drift)
    parts += [Text(), Text(f"drift: {', '.join(keys)}" if keys else "no drift", style="yellow" if keys else "")]
    return Group(*parts)


def policies_json(report: PolicyReport) -> dict[str, Any]:
    return {
        "table": str(report.table),
        "catalog": report.table.catalog,
        "obeyed": report.is_obeyed,
        "policies": [
            {
                "name": policy.name,
                "namespace": list(policy.namespace),
                "type": policy.policy_type,
                "version": policy.version,
                "inherited": policy.inherited,
                "content": policy.content,
            }
            for policy in report.policies
        ],
        "values": [
            {
                "key": _dashed(each.key),
                "catalog": _value_json(each.catalog),
                "own": _value_json(each.own),
                "differs": each.differs,
                "used": _value_json(report.used[each.key]),
            }
            for each in report.values
        ],
        "notes": [
            {"policy": note.policy.full_name, "reason": note.reason, "error": note.is_error} for note in report.notes
        ],
        "drift": bool(report.drift),
    }


def _policy_listing(report: PolicyReport) -> Listing:
    listing = Listing()
    for heading in ("policy", "type", "version", "attached to"):
        listing.add_column(heading)
    for policy in report.policies:
        place = "a namespace above, or the catalog" if policy.inherited else "the table"
        listing.add_row(policy.full_name, policy.policy_type, str(policy.version), place)
    return listing


def _value_listing(report: PolicyReport) -> Listing:
    listing = Listing()
    for heading in ("key", "catalog", "own", "own from", "used", "used from"):
        listing.add_column(heading)
    for each in report.values:
        used = report.used[each.key]
        style = "yellow" if each.differs else ""
        listing.add_row(
            Text(_dashed(each.key), style=style),
            _words(each, each.catalog),
            Text(_words(each, each.own), style=style),
            each.own.origin,
            _words(each, used),
            used.origin,
        )
    return listing


def _words(drift: PolicyDrift, value: PolicyValue) -> str:
    if drift.key in _SIZES and isinstance(value.value, int):
        return size(value.value)
    return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)


def _value_json(value: PolicyValue) -> dict[str, Any]:
    return {"value": value.value, "from": value.origin}


def _policies(number: int) -> str:
    return "1 policy" if number == 1 else f"{number:,} policies"


def _dashed(key: str) -> str:
    return key.replace("_", "-")
