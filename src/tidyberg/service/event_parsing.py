"""Reads events: CloudEvents in structured, batched and binary mode, and notifications of S3 and EventBridge. Pure.

Lakekeeper publishes CloudEvents whose extensions name the table. Polaris hands its events to listeners, which send them
as the data of a CloudEvent. Object stores report new metadata files; a later look finds the table by its location.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from tidyberg.errors import BadInput

MOST_EVENTS = 100
_MOST_CHARACTERS = 1024
_HEADER = "ce-"
_COMMITS = frozenset(("updatetable", "afterupdatetable", "aftercommittable"))
_METADATA_FILE = re.compile(r"/metadata/[^/]+\.metadata\.json(\.gz)?$|/metadata/[^/]+\.gz\.metadata\.json$")
_ACCEPTED = "Send a CloudEvent, a list of CloudEvents, or a notification of S3 or EventBridge."


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """A commit to a table, which is named or found by its location; or something else, with a reason to ignore it."""

    key: str  # equal for an event that is delivered twice
    table: str = ""  # "namespace.name"
    catalog: str | None = None  # what the sender calls it
    location: str = ""  # of a metadata file
    ignored: str = ""

    @property
    def subject(self) -> str:
        return self.table or self.location or self.key


def parse_events(
    document: Any, headers: Mapping[str, str], commit_types: Collection[str] = ()
) -> tuple[ReceivedEvent, ...]:
    """Returns the events of a request. `commit_types` are further types of CloudEvents that report a commit."""
    commits = _COMMITS | {_plain_type(one) for one in commit_types}
    attributes = {
        name.lower().removeprefix(_HEADER): value for name, value in headers.items() if name.lower().startswith(_HEADER)
    }
    if "specversion" in attributes:
        return (_cloud_event({**attributes, "data": document}, commits),)
    if isinstance(document, list):
        found = tuple(_cloud_event(_object(one), commits) for one in document[: MOST_EVENTS + 1])
    elif isinstance(document, dict) and isinstance(document.get("Records"), list):
        found = tuple(_s3_record(_object(one)) for one in document["Records"][: MOST_EVENTS + 1])
    elif isinstance(document, dict) and document.get("Event") == "s3:TestEvent":
        found = (ReceivedEvent(_key("s3-test", document.get("RequestId")), ignored="it is a test of S3"),)
    elif isinstance(document, dict) and "detail-type" in document:
        found = (_eventbridge(document),)
    elif isinstance(document, dict) and "specversion" in document:
        found = (_cloud_event(document, commits),)
    else:
        raise BadInput("The body is not an event that this service knows.", hint=_ACCEPTED)
    if len(found) > MOST_EVENTS:
        raise BadInput(f"The request has more than {MOST_EVENTS} events.", hint="Send them in several requests.")
    return found


def _cloud_event(event: Mapping[str, Any], commits: Collection[str]) -> ReceivedEvent:
    if event.get("specversion") != "1.0":
        raise BadInput("The CloudEvent has no specversion 1.0.", hint=_ACCEPTED)
    event_id, source, kind = (_text(event, name) for name in ("id", "source", "type"))
    if not (event_id and source and kind):
        raise BadInput("The CloudEvent lacks its id, source or type.", hint=_ACCEPTED)
    key = _key("cloudevent", source, event_id)
    if _plain_type(kind) not in commits:
        return ReceivedEvent(key, ignored=f"its type {kind[:100]!r} does not report a commit")
    if _text(event, "tabular-type") not in ("", "table"):
        return ReceivedEvent(key, ignored="it is not about a table")
    data = event["data"] if isinstance(event.get("data"), dict) else {}
    table = _table(event, data)
    if not table:
        return ReceivedEvent(key, ignored="it names no table")
    named = (_text(event, "warehouse-id"), _text(event, "prefix"), _text(data, "catalog_name"), _text(data, "catalog"))
    return ReceivedEvent(key, table, next((one for one in named if one), None))


def _table(event: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Lakekeeper names the table in extensions, Polaris in the data. Others may name it in the subject."""
    namespace, name = _text(event, "namespace"), _text(event, "name")
    if not name:
        namespace = _text(data, "namespace")
        name = next((text for one in ("table_name", "table", "name") if (text := _text(data, one))), "")
    if name:
        return f"{namespace}.{name}" if namespace else name
    return _text(data, "table_identifier") or _text(event, "subject")


def _s3_record(record: Mapping[str, Any]) -> ReceivedEvent:
    stored = record.get("s3")
    if not isinstance(stored, dict):
        raise BadInput("A record of the notification is not one of S3.", hint=_ACCEPTED)
    bucket, item = _object(stored.get("bucket")), _object(stored.get("object"))
    path = unquote_plus(_text(item, "key"))  # S3 encodes keys in records, but not in events of EventBridge
    name = _text(record, "eventName")
    key = _key("s3", _text(bucket, "name"), path, _text(item, "sequencer"))
    if not name.removeprefix("s3:").startswith("ObjectCreated:"):
        return ReceivedEvent(key, ignored=f"{name[:100]!r} creates no object")
    return _metadata_file(key, _text(bucket, "name"), path)


def _eventbridge(event: Mapping[str, Any]) -> ReceivedEvent:
    key = _key("eventbridge", _text(event, "id"))
    if not _text(event, "id"):
        raise BadInput("The event of EventBridge has no id.", hint=_ACCEPTED)
    if event.get("source") != "aws.s3" or event.get("detail-type") != "Object Created":
        return ReceivedEvent(key, ignored="it does not report a new object")
    detail = _object(event.get("detail"))
    bucket, item = _object(detail.get("bucket")), _object(detail.get("object"))
    return _metadata_file(key, _text(bucket, "name"), _text(item, "key"))


def _metadata_file(key: str, bucket: str, path: str) -> ReceivedEvent:
    if not bucket or not _METADATA_FILE.search(f"/{path}"):
        return ReceivedEvent(key, ignored="the object is not a metadata file of a table")
    return ReceivedEvent(key, location=f"s3://{bucket}/{path}")


def _plain_type(kind: str) -> str:
    """Reduces "updateTable", "org.example.UPDATE_TABLE" and "UpdateTableEvent" to the same word."""
    return re.sub("[^a-z]", "", kind.rpartition(".")[2].lower()).removesuffix("event")


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInput("An event has a value where an object belongs.", hint=_ACCEPTED)
    return value


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = ".".join(value)
    # Catalogs separate the levels of a namespace with the unit separator, as in the paths of the REST specification.
    return value[:_MOST_CHARACTERS].replace("\x1f", ".").strip() if isinstance(value, str) else ""


def _key(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode(errors="backslashreplace")).hexdigest()
