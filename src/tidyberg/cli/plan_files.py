"""Reads and writes plan files."""

from pathlib import Path

from tidyberg.errors import BadInput
from tidyberg.model.plan import Plan
from tidyberg.planning.document import plan_from_json, plan_to_json


def write_plan(plan: Plan, path: Path) -> None:
    try:
        path.write_text(plan_to_json(plan), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"The plan cannot be written to {path}: {error.strerror or error}.") from None


def read_plan(path: Path) -> Plan:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{path} cannot be read: {error}.", hint="Make a plan with `tidyberg plan TABLE --out PLAN.json`."
        ) from None
    return plan_from_json(text)
