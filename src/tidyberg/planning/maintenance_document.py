"""Writes plans of maintenance as JSON and reads them back. A hash shows if a document was edited."""

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tidyberg.errors import BadPlan
from tidyberg.model.maintenance import MAINTENANCE, MAINTENANCE_FORMAT, MaintenancePlan
from tidyberg.planning.document import plan_from_json, plan_hash, plan_to_json

_PLAN = TypeAdapter(MaintenancePlan)
_BEGINNING = re.compile(r'\s*\{\s*"kind"\s*:\s*"' + MAINTENANCE + '"')
_UNHASHED = ("hash", "created_ms")
_AGAIN = "Make a new plan: tidyberg maintain TABLE --plan-out PLAN.json."


def is_maintenance_plan(text: str) -> bool:
    return _BEGINNING.match(text) is not None


def maintenance_plan_to_json(plan: MaintenancePlan) -> str:
    return _PLAN.dump_json(plan, indent=1).decode()


def maintenance_plan_from_json(text: str) -> MaintenancePlan:
    """Reads a plan. Raises BadPlan if the document is damaged, was edited, or was written by another version."""
    try:
        document: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        raise BadPlan("The plan is not valid JSON.", hint=_AGAIN) from None
    if document.get("format") != MAINTENANCE_FORMAT:
        raise BadPlan(
            f"The plan was made by another tidyberg ({document.get('tool_version', 'unknown version')}).", hint=_AGAIN
        )
    try:
        plan = _PLAN.validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise BadPlan(f"The plan is not complete: {where}: {problem['msg'].lower()}.", hint=_AGAIN) from None
    if plan.hash != maintenance_plan_hash(plan):
        raise BadPlan("The plan was edited: its contents do not match its hash.", hint=_AGAIN)
    for step in plan.steps:
        if step.compaction is not None:
            plan_from_json(plan_to_json(step.compaction))  # checks its own hash and options
    return plan


def maintenance_plan_hash(plan: MaintenancePlan) -> str:
    """Returns the SHA-256 of the plan's canonical JSON. Plans of compactions count with their own hashes."""
    hashes = [plan_hash(step.compaction) if step.compaction is not None else None for step in plan.steps]
    head = replace(plan, steps=tuple(replace(step, compaction=None) for step in plan.steps))
    document = _PLAN.dump_python(head, mode="json")
    for name in _UNHASHED:
        del document[name]
    canonical = json.dumps([document, hashes], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode(errors="surrogatepass")).hexdigest()
