"""Shows plans and results of maintenance, and where each value of a policy comes from."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tidyberg.cli.as_json import error_json, plain
from tidyberg.cli.formatting import dollars, duration, size
from tidyberg.cli.listing import Listing
from tidyberg.model.maintenance import MaintenancePlan, MaintenanceResult, StepPlan, StepResult
from tidyberg.model.maintenance_policy import DEFAULT, MaintenancePolicy
from tidyberg.planning.maintenance_document import maintenance_plan_to_json

_STYLES = {
    "run": "green", "skip": "dim", "wait": "yellow", "refused": "yellow",
    "done": "green", "nothing": "dim", "skipped": "dim", "stopped": "red", "failed": "bold red",
}  # fmt: skip
_WORDS = {"nothing": "nothing to do"}


def show_maintenance_plan(plan: MaintenancePlan, next_command: str | None) -> Group:
    listing = Listing()
    for heading, justify in (("step", "left"), ("verdict", "left"), ("price", "right"), ("saves a month", "right")):
        listing.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True)
    listing.add_column("what", overflow="fold")
    for step in plan.steps:
        runs = step.verdict == "run"
        listing.add_row(
            step.step,
            Text(step.verdict, style=_STYLES[step.verdict]),
            dollars(step.dollars) if runs else "–",
            _saving(step) if runs else "–",
            step.reason,
        )
    parts: list[RenderableType] = [Text(str(plan.table), style="bold"), Text(), listing, Text()]
    if plan.is_empty:
        parts.append(Text("nothing to do"))
    else:
        total = f"price {dollars(plan.dollars)}, saves {_money(plan.dollars_saved_per_month)} a month"
        parts.append(Text(f"{total} (with {plan.policy.scans_per_month} full scans a month)"))
    parts += _policy_lines(plan.policy)
    closing = f"plan {plan.hash[:8]}" + (f" · next: {next_command}" if next_command and not plan.is_empty else "")
    return Group(*parts, Text(closing, style="dim"))


def show_maintenance_result(result: MaintenanceResult) -> Group:
    listing = Listing()
    for heading in ("step", "planned", "status"):
        listing.add_column(heading, no_wrap=True)
    listing.add_column("took", justify="right", no_wrap=True)
    listing.add_column("what", overflow="fold")
    for step in result.steps:
        listing.add_row(
            step.step,
            step.planned.verdict if step.status != "stopped" else "–",
            Text(_WORDS.get(step.status, step.status), style=_STYLES[step.status]),
            duration(step.seconds) if step.status in ("done", "failed") else "–",
            step.reason,
        )
    mark = {"done": ("✓ ", "bold green"), "nothing": ("", ""), "failed": ("! ", "bold yellow")}[result.outcome]
    freed = sum(step.numbers.get("bytes_freed", 0) for step in result.steps)
    words = {"done": " · maintained", "nothing": ": nothing to do", "failed": " · not all steps succeeded"}
    headline = Text.assemble(mark, (str(result.table), "bold"), words[result.outcome])
    headline.append(f" · {size(freed)} freed" if freed else "")
    return Group(headline, Text(), listing, *_note_lines(result.policy))


def show_policy(policy: MaintenancePolicy) -> Group:
    """Shows every value and where it comes from."""
    listing = Listing()
    for heading in ("key", "value", "from"):
        listing.add_column(heading)
    for key, value in policy.values().items():
        listing.add_row(_dashed(key), _value(key, value), policy.origin(key))
    return Group(listing, *_note_lines(policy))


def policy_json(policy: MaintenancePolicy) -> dict[str, Any]:
    return {_dashed(key): {"value": value, "from": policy.origin(key)} for key, value in policy.values().items()}


def maintenance_plan_json(plan: MaintenancePlan) -> dict[str, Any]:
    """The very document that --plan-out writes."""
    document: dict[str, Any] = json.loads(maintenance_plan_to_json(plan))
    return document


def maintenance_json(result: MaintenanceResult) -> dict[str, Any]:
    failure = result.failure
    return {
        "success": failure is None,
        "table": str(result.table),
        "outcome": result.outcome,
        "plan_hash": result.plan_hash,
        "steps": [_step_json(step) for step in result.steps],
        "policy": policy_json(result.policy),
        "policy_notes": list(result.policy.notes),
        **(error_json(failure) if failure is not None else {}),
    }


def _step_json(result: StepResult) -> dict[str, Any]:
    planned = result.planned
    return {
        "step": result.step,
        "status": result.status,
        "reason": result.reason,
        "seconds": round(result.seconds, 3),
        "job_id": result.job_id,
        "numbers": plain(result.numbers),
        "planned": {
            "verdict": planned.verdict,
            "reason": planned.reason,
            "dollars": planned.dollars,
            "dollars_saved_per_month": planned.dollars_saved_per_month,
            "numbers": plain(planned.numbers),
        },
        **(error_json(result.failure) if result.failure is not None else {}),
    }


def _policy_lines(policy: MaintenancePolicy) -> Sequence[Text]:
    """One line for each value that is not a default."""
    given = [(key, value) for key, value in policy.values().items() if policy.origin(key) != DEFAULT]
    lines = [
        Text(f"policy: {_dashed(key)} = {_value(key, value)} ({policy.origin(key)})", style="dim")
        for key, value in given
    ]
    return [*lines, *_note_lines(policy)]


def _note_lines(policy: MaintenancePolicy) -> list[Text]:
    """One line for each thing that a policy of the catalog says and tidyberg does not do."""
    return [Text(f"! {note}", style="yellow") for note in policy.notes]


def _value(key: str, value: object) -> str:
    if value is None:
        return (
            "the table's, or 5d"
            if key == "expire.older_than"
            else ("the table's, or 1" if key == "expire.retain_last" else "–")
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _saving(step: StepPlan) -> str:
    return _money(step.dollars_saved_per_month)


def _money(amount: float) -> str:
    return f"-{dollars(-amount)}" if amount < 0 else dollars(amount)
