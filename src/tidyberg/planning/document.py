"""Plans as documents: JSON out, JSON in, and a hash that tells whether somebody changed one."""

import hashlib
import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tidyberg.errors import BadInput, BadPlan
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy
from tidyberg.model.plan import PLAN_FORMAT, Plan

_PLAN = TypeAdapter(Plan)
# Not part of a plan's identity: the hash itself, and the moment at which the same plan was made again.
_UNHASHED = ("hash", "created_ms")
_AGAIN = "Make a new plan: tidyberg plan TABLE."


def plan_to_json(plan: Plan) -> str:
    return _PLAN.dump_json(plan, indent=1).decode()


def plan_from_json(text: str | bytes) -> Plan:
    """The plan of a document; BadPlan where it is damaged, was edited, or comes from a newer tidyberg."""
    document = _read(text)
    try:
        plan = _PLAN.validate_json(text, strict=True, extra="forbid")
        options_of(plan)
    except ValidationError as error:
        raise BadPlan(f"The plan is not complete: {_first_problem(error)}.", hint=_AGAIN) from None
    except (BadInput, TypeError, ValueError) as error:
        raise BadPlan(f"The plan's options are not valid: {error}", hint=_AGAIN) from None
    if plan.hash != _hash(document):
        raise BadPlan("The plan was edited: its contents do not match its hash.", hint=_AGAIN)
    return plan


def plan_hash(plan: Plan) -> str:
    """SHA-256 over the canonical JSON of all that the plan says, but when it was made."""
    return _hash(_PLAN.dump_python(plan, mode="json"))


def options_of(plan: Plan) -> PlanOptions:
    """The options that a plan was made with, sizes resolved."""
    options = dict(plan.options)
    names = {
        "strategy": Strategy.parse(str(options.get("strategy", ""))),
        "mode": RewriteMode.parse(str(options.get("mode", ""))),
    }
    return PlanOptions(**{**options, **names})


def _read(text: str | bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadPlan("The plan is not valid JSON.", hint=_AGAIN) from None
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise BadPlan("The file is not a tidyberg plan.", hint="Give a file that `tidyberg plan --out` wrote.")
    if document["format"] > PLAN_FORMAT:
        raise BadPlan(
            f"The plan was made by a newer tidyberg ({document.get('tool_version', 'unknown version')}).",
            hint="Upgrade tidyberg, or make a new plan with this one.",
        )
    if document["format"] < PLAN_FORMAT:
        raise BadPlan("The plan was made by an older tidyberg.", hint=_AGAIN)
    return document


def _hash(document: dict[str, Any]) -> str:
    hashed = {name: value for name, value in document.items() if name not in _UNHASHED}
    canonical = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode(errors="surrogatepass")).hexdigest()


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].lower()}"
