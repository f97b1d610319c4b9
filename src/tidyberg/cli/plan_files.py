"""Reads and writes plan files: of compactions, and of maintenance."""

from pathlib import Path

from tidyberg.errors import BadInput
from tidyberg.model.maintenance import MaintenancePlan
from tidyberg.model.plan import Plan
from tidyberg.planning.document import plan_from_json, plan_to_json
from tidyberg.planning.maintenance_document import is_maintenance_plan, maintenance_plan_from_json


def write_plan(plan: Plan, path: Path) -> None:
    write_plan_text(plan_to_json(plan), path)


def write_plan_text(text: str, path: Path) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"The plan cannot be written to {path}: {error.strerror or error}.") from None


def read_plan(path: Path) -> Plan | MaintenancePlan:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{path} cannot be read: {error}.", hint="Make a plan with `tidyberg plan TABLE --out PLAN.json`."
        ) from None
    return maintenance_plan_from_json(text) if is_maintenance_plan(text) else plan_from_json(text)
