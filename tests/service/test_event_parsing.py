"""Events of catalogs and object stores, in the shapes in which they arrive."""

from typing import Any

import pytest

from tidyberg.errors import BadInput
from tidyberg.service.event_parsing import MOST_EVENTS, ReceivedEvent, parse_events

LAKEKEEPER: dict[str, Any] = {
    "specversion": "1.0",
    "id": "1",
    "source": "uri:iceberg-catalog-service:host",
    "type": "updateTable",
    "tabular-type": "table",
    "tabular-id": "t",
    "warehouse-id": "w",
    "namespace": "db\x1fraw",
    "name": "events",
    "prefix": "p",
    "data": {"updates": []},
}
POLARIS = {
    "specversion": "1.0",
    "id": "2",
    "source": "polaris",
    "type": "org.apache.polaris.AFTER_UPDATE_TABLE",
    "data": {"catalog_name": "prod", "namespace": ["db"], "table_name": "events"},
}
KEY = "lake/db/my events/metadata/00001-a.metadata.json"


def one(document: Any, headers: dict[str, str] | None = None, types: tuple[str, ...] = ()) -> ReceivedEvent:
    (found,) = parse_events(document, headers or {}, types)
    return found


def s3_record(key: str = KEY.replace(" ", "+"), name: str = "ObjectCreated:Put", sequencer: str = "1") -> Any:
    return {"eventName": name, "s3": {"bucket": {"name": "b"}, "object": {"key": key, "sequencer": sequencer}}}


def eventbridge(**changes: Any) -> Any:
    detail = {"bucket": {"name": "b"}, "object": {"key": KEY}}
    return {"id": "e", "source": "aws.s3", "detail-type": "Object Created", "detail": detail, **changes}


def test_cloudevents_of_lakekeeper_name_the_table_in_extensions() -> None:
    found = one(LAKEKEEPER)
    assert (found.table, found.catalog, found.ignored) == ("db.raw.events", "w", "")


def test_cloudevents_of_polaris_name_the_table_in_their_data() -> None:
    assert (one(POLARIS).table, one(POLARIS).catalog) == ("db.events", "prod")
    plain = {**POLARIS, "type": "AfterCommitTableEvent", "data": {"table_identifier": "db.events"}}
    assert (one(plain).table, one(plain).catalog) == ("db.events", None)


def test_binary_mode_has_the_attributes_in_headers() -> None:
    headers = {f"Ce-{name}": value for name, value in LAKEKEEPER.items() if name != "data"}
    assert one({"updates": []}, headers) == one(LAKEKEEPER)


def test_a_batch_has_several_events() -> None:
    assert [event.table for event in parse_events([LAKEKEEPER, POLARIS], {})] == ["db.raw.events", "db.events"]


def test_the_key_is_that_of_source_and_id() -> None:
    assert one(LAKEKEEPER).key == one({**LAKEKEEPER, "data": None, "name": "x"}).key
    assert one(LAKEKEEPER).key != one({**LAKEKEEPER, "source": "other"}).key
    assert one(LAKEKEEPER).key != one({**LAKEKEEPER, "id": "other"}).key


def test_events_that_are_no_commits_are_ignored() -> None:
    for changes in (
        {"type": "dropTable"},
        {"tabular-type": "view"},
        {"name": "", "namespace": ""},
    ):
        assert one({**LAKEKEEPER, **changes}).ignored, changes
    assert one({**LAKEKEEPER, "type": "com.example.Commit"}, types=("commit",)).table
    assert one({**LAKEKEEPER, "type": "com.example.Commit"}).ignored


def test_new_metadata_files_are_reported_by_s3_and_eventbridge() -> None:
    assert one({"Records": [s3_record()]}).location == f"s3://b/{KEY}"
    assert one(eventbridge()).location == f"s3://b/{KEY}"
    for key in ("lake/db/t/metadata/1.gz.metadata.json", "t/metadata/v3.metadata.json.gz"):
        assert one({"Records": [s3_record(key)]}).location
    assert one({"Records": [s3_record()]}).key != one({"Records": [s3_record(sequencer="2")]}).key


def test_other_objects_are_ignored() -> None:
    for record in (
        s3_record("lake/db/t/data/a.parquet"),
        s3_record("lake/db/t/metadata/snap-1.avro"),
        s3_record(name="ObjectRemoved:Delete"),
    ):
        assert one({"Records": [record]}).ignored
    assert one(eventbridge(**{"detail-type": "Object Deleted"})).ignored
    assert one({"Service": "Amazon S3", "Event": "s3:TestEvent", "RequestId": "r"}).ignored


@pytest.mark.parametrize(
    "document",
    [
        None,
        7,
        "text",
        {},
        {"a": 1},
        [1],
        [None],
        {"specversion": "0.3", "id": "1", "source": "s", "type": "updateTable"},
        {"specversion": "1.0", "id": "", "source": "s", "type": "updateTable"},
        {"specversion": "1.0", "id": 5, "source": "s", "type": "updateTable"},
        {"Records": [{}]},
        {"Records": [{"s3": {"bucket": 1, "object": {}}}]},
        {"detail-type": "Object Created", "source": "aws.s3"},
        {"detail-type": "Object Created", "source": "aws.s3", "id": "1", "detail": []},
        [LAKEKEEPER] * (MOST_EVENTS + 1),
    ],
)
def test_malformed_events_are_refused_with_a_reason(document: Any) -> None:
    with pytest.raises(BadInput) as refused:
        parse_events(document, {})
    assert refused.value.hint
