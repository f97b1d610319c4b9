"""A submission as a Redis hash: a field each, in JSON but for what scripts read; None is a field that is absent."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter

from tidyberg.model.submission import Claim, JobEvent, Submission
from tidyberg.model.table import TableRef

_SUBMISSION = TypeAdapter(Submission)
_EVENT = TypeAdapter(JobEvent)

# Scripts write these themselves.
_PLAIN = ("tenant", "status")
_IN_JSON = tuple(field.name for field in fields(Submission) if field.name not in (*_PLAIN, "claim"))

# Stands for a submission of which only some fields are of interest.
ANY = Submission("", TableRef("", (), ""), "", {}, 0, "")


def fields_of(submission: Submission, names: Collection[str] = _IN_JSON) -> list[str]:
    """Name, value, name, value, …; a value of "null" takes the field away."""
    document = _SUBMISSION.dump_python(submission, mode="json")
    return [part for name in names for part in (name, json_text(document[name]))]


def submission_of(found: Mapping[str, str] | Sequence[str] | None) -> Submission | None:
    """None: there is none. Scripts give a hash as name, value, name, value, …"""
    if not found:
        return None
    kept = found if isinstance(found, Mapping) else dict(zip(found[::2], found[1::2], strict=True))
    document: dict[str, Any] = {name: json.loads(kept[name]) for name in _IN_JSON if name in kept}
    document |= {name: kept[name] for name in _PLAIN}
    if "worker" in kept:
        document["claim"] = Claim(kept["worker"], int(kept["token"]), int(kept["expires_ms"]))
    return _SUBMISSION.validate_python(document)


def event_of(event_id: str, kept: Mapping[str, str]) -> JobEvent:
    number, _, _ = event_id.partition("-")
    data = json.loads(kept["data"])
    return _EVENT.validate_python({"number": number, "at_ms": kept["at_ms"], "kind": kept["kind"], "data": data})


def table_id(table: TableRef) -> str:
    return json_text((table.catalog, *table.identifier))


def json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
