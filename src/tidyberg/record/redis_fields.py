"""Converts submissions to Redis hashes. Values are JSON, except those that scripts read. None is an absent field."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter

from tidyberg.model.submission import Claim, JobEvent, Submission
from tidyberg.model.table import TableRef

_SUBMISSION = TypeAdapter(Submission)
_EVENT = TypeAdapter(JobEvent)

# Only scripts write these fields.
_PLAIN = ("tenant", "status")
_IN_JSON = tuple(field.name for field in fields(Submission) if field.name not in (*_PLAIN, "claim"))

# The default of fields that are not of interest.
ANY = Submission("", TableRef("", (), ""), "", {}, 0, "")


def fields_of(submission: Submission, names: Collection[str] = _IN_JSON) -> list[str]:
    """Return name, value, name, value, …. The value "null" removes a field."""
    document = _SUBMISSION.dump_python(submission, mode="json")
    return [part for name in names for part in (name, json_text(document[name]))]


def submission_of(found: Mapping[str, str] | Sequence[str] | None) -> Submission | None:
    """Parse a hash, which scripts return as name, value, name, value, …. None means that there is none."""
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
