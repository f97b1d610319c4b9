"""Writes plans as JSON and reads them back. A hash shows if a document was edited."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from operator import attrgetter
from types import NoneType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tidyberg.errors import BadInput, BadPlan
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy
from tidyberg.model.plan import (
    PLAN_FORMAT,
    BoundaryForecast,
    Estimate,
    FileGroup,
    InputFile,
    LayoutForecast,
    PartitionVerdict,
    Plan,
    Rest,
    Rewrite,
    Skip,
)
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.words import plural

_PLAN = TypeAdapter(Plan)
_FILE = '{"first_row_id":%s,"manifest":%s,"path":%s,"records":%d,"sequence_number":%d,"size":%d}'
_text = json.encoder.encode_basestring
# The hash covers neither itself nor the time at which the plan was made.
_UNHASHED = ("hash", "created_ms")
_LONG_LISTS = ("groups", "partitions")  # hashed piece by piece, because those of a million files would fill a gigabyte
_AGAIN = "Make a new plan: tidyberg plan TABLE."


def plan_to_json(plan: Plan) -> str:
    return _PLAN.dump_json(plan, indent=1).decode()


def plan_from_json(text: str | bytes) -> Plan:
    """Reads a plan. Raises BadPlan if the document is damaged, was edited, or was written by another version."""
    document = _read(text)
    try:
        plan = _PLAN.validate_json(text, strict=True, extra="forbid")
        options_of(plan)
        _check_division(plan)
    except ValidationError as error:
        raise BadPlan(f"The plan is not complete: {_first_problem(error)}.", hint=_AGAIN) from None
    except (BadInput, TypeError, ValueError) as error:
        raise BadPlan(f"The plan's options are not valid: {error}", hint=_AGAIN) from None
    lists = {name: map(_canonical, document.pop(name)) for name in _LONG_LISTS}
    if plan.hash != _hash(document, lists):
        raise BadPlan("The plan was edited: its contents do not match its hash.", hint=_AGAIN)
    return plan


def plan_hash(plan: Plan) -> str:
    """Returns the SHA-256 of the plan's canonical JSON, without the time at which the plan was made."""
    head = _PLAN.dump_python(replace(plan, groups=(), partitions=()), mode="json")
    groups = map(_WRITERS[FileGroup], plan.groups)
    partitions = map(_WRITERS[PartitionVerdict], plan.partitions)
    return _hash(head, {"groups": groups, "partitions": partitions})


def options_of(plan: Plan) -> PlanOptions:
    """Returns the options that a plan was made with. Sizes are resolved."""
    options = dict(plan.options)
    names = {
        "strategy": Strategy.parse(str(options.get("strategy", ""))),
        "mode": RewriteMode.parse(str(options.get("mode", ""))),
    }
    return PlanOptions(**{**options, **names})


def _check_division(plan: Plan) -> None:
    for group in plan.groups:
        if not 1 <= group.tasks <= max(1, group.outputs):
            raise BadPlan(
                f"Group {group.group_id} of the plan is divided among {group.tasks} tasks, "
                f"but has {plural(group.outputs, 'output')}.",
                hint=_AGAIN,
            )


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


def _hash(head: Mapping[str, Any], lists: Mapping[str, Iterable[str]]) -> str:
    """Hashes the canonical JSON of the whole document."""
    hashed = hashlib.sha256()
    hashed.update(b"{")
    names = sorted({*head, *lists} - set(_UNHASHED))
    for number, name in enumerate(names):
        hashed.update(f'{"," if number else ""}"{name}":'.encode())
        if name not in lists:
            hashed.update(_encoded(_canonical(head[name])))
            continue
        hashed.update(b"[")
        for position, text in enumerate(lists[name]):
            hashed.update(_encoded(f"{',' if position else ''}{text}"))
        hashed.update(b"]")
    hashed.update(b"}")
    return hashed.hexdigest()


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _canonical_list(values: Iterable[Any]) -> str:
    return f"[{','.join(_texts(values))}]"


def _canonical_record(kind: type) -> Callable[[Any], str]:
    """Returns a writer for a dataclass. It is faster than `_canonical`: plans may have 100,000 groups."""
    names = sorted(field.name for field in fields(kind))
    values_of = attrgetter(*names)
    template = "{" + ",".join(f'"{name}":%s' for name in names) + "}"
    return lambda record: template % tuple(_texts(values_of(record)))


def _texts(values: Iterable[Any]) -> list[str]:
    return [_WRITERS.get(type(value), _canonical)(value) for value in values]


def _canonical_file(file: InputFile) -> str:
    return _FILE % (
        "null" if file.first_row_id is None else file.first_row_id,
        _text(file.manifest),
        _text(file.path),
        file.records,
        file.sequence_number,
        file.size,
    )


_WRITERS: Mapping[type, Callable[[Any], str]] = {
    NoneType: lambda _: "null",
    int: int.__repr__,
    float: float.__repr__,
    str: _text,
    tuple: _canonical_list,
    InputFile: _canonical_file,
    **{
        kind: _canonical_record(kind)
        for kind in (
            BoundaryForecast,
            FileGroup,
            Estimate,
            LayoutForecast,
            PartitionVerdict,
            Rest,
            Rewrite,
            Skip,
            SortField,
            SortKey,
        )
    },
}


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].lower()}"
