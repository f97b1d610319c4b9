"""A request that is not understood is refused with a clear text, and changes nothing."""

import math
from typing import Any

import pytest

from tests.builders.table_operations import USERS, Tables

TABLE = {"tenant_id": "t", "table": "users"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "names no operation"),
        ({"operation": None}, "names no operation"),
        ({"operation": 7}, "not a text"),
        ({"operation": "DROP_TABLE"}, "'DROP_TABLE' is not an operation"),
        ({"operation": "write"}, "did you mean 'WRITE'"),
        ({"operation": "WRITE", **TABLE}, "'records' is missing"),
        ({"operation": "WRITE", **TABLE, "records": []}, "'records' should have at least 1 item"),
        ({"operation": "WRITE", **TABLE, "records": {}}, "'records' should be a valid list"),
        ({"operation": "WRITE", **TABLE, "records": [1]}, "records"),
        ({"operation": "WRITE", **TABLE, "records": [{"a": 1}], "mode": "x"}, "'mode' is not known"),
        ({"operation": "WRITE", **TABLE, "records": [{"a": math.nan}]}, "NaN"),
        ({"operation": "WRITE", **TABLE, "records": [{"a": "\x00"}]}, "NUL"),
        ({"operation": "WRITE", **TABLE, "records": [{"a": "\ud800"}]}, "surrogate"),
        ({"operation": "WRITE", **TABLE, "records": [{"a": b"x"}]}, "not plain JSON"),
        ({"operation": "QUERY", **TABLE, "table": "a.b", "sql": "SELECT 1"}, "'table' should match"),
        ({"operation": "QUERY", **TABLE, "table": "..", "sql": "SELECT 1"}, "'table' should match"),
        ({"operation": "QUERY", **TABLE, "sql": "SELECT 1", "filter": "a"}, "give either sql"),
        ({"operation": "QUERY", **TABLE, "limit": 0}, "'limit' should be greater"),
        ({"operation": "QUERY", **TABLE, "limit": "5"}, "'limit' should be a valid integer"),
        ({"operation": "COMPACT", **TABLE, "force": 1}, "'force' should be a valid boolean"),
        ({"operation": "COMPACT", **TABLE, "target_file_size_mb": -1}, "'target_file_size_mb' should be greater"),
        ({"operation": "COMPACT", **TABLE, "snapshot_retention_hours": 0}, "'snapshot_retention_hours' should be"),
        ({"operation": "QUERY", "table": "users", "sql": "SELECT 1"}, "'tenant_id' is missing"),
        ({"operation": "QUERY", **TABLE, "tenant_id": 5, "sql": "SELECT 1"}, "'tenant_id' should be a valid string"),
        ({"operation": "QUERY", **TABLE, "tenant_id": "a/../b", "sql": "SELECT 1"}, "is not a tenant"),
        ({"operation": "QUERY", **TABLE, "namespace": "a.b", "sql": "SELECT 1"}, "is not a namespace"),
    ],
)
def test_a_wrong_request_names_its_mistake(shared_tables: Tables, body: dict[str, Any], words: str) -> None:
    answer = shared_tables.operations.handle(body, None)
    assert answer.status == 422
    assert answer.body["success"] is False
    assert words in answer.body["error"]


def test_deep_json_is_refused(shared_tables: Tables) -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    answer = shared_tables.operations.handle({"operation": "WRITE", **TABLE, "records": [{"a": deep}]}, None)
    assert (answer.status, "nested" in answer.body["error"]) == (422, True)


def test_a_body_that_is_no_object_is_refused(shared_tables: Tables) -> None:
    wrong: tuple[Any, ...] = ([], "x", None, 5)
    for body in wrong:
        answer = shared_tables.operations.handle(body, None)
        assert (answer.status, answer.body["success"]) == (422, False)


def test_too_many_records_are_refused(tables: Tables) -> None:
    tables.create()
    assert "the limit is 10000" in tables.refused("WRITE", records=[{"name": "a"}] * 10_001)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"a": {"type": "varchar"}}, "is of type 'varchar', which is not known"),
        ({"a": {"type": "decimal(50,2)"}}, "precision of 1 to 38"),
        ({"a": {"type": "list"}}, "does not fit its other keys"),
        ({"a": {"type": "string", "element": {"type": "string"}}}, "does not fit its other keys"),
        ({"a.b": {"type": "string"}}, "is not a column name"),
        ({"": {"type": "string"}}, "at least 1 character"),
        ({"a": {"type": "string"}, "A": {"type": "string"}}, "only in its case"),
        ({"a": {}}, "'schema.fields.a.type' is missing"),
        ({"a": {"type": "string", "required": "yes"}}, "should be a valid boolean"),
        ({}, "'schema.fields' should have at least 1 item"),
    ],
)
def test_a_wrong_schema_names_its_mistake(shared_tables: Tables, fields: dict[str, Any], words: str) -> None:
    assert words in shared_tables.refused("CREATE_TABLE", schema={"fields": fields})


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ("missing", "there is no column"),
        ("day(name)", "cannot be applied"),
        ("bucket(0, name)", "is not a partition"),
        ("sort(name)", "is not a partition"),
    ],
)
def test_a_wrong_partition_names_its_mistake(shared_tables: Tables, partition: str, words: str) -> None:
    assert words in shared_tables.refused("CREATE_TABLE", schema=USERS, partition_by=[partition])


def test_a_table_is_created_once(tables: Tables) -> None:
    assert tables.call("CREATE_TABLE", schema=USERS)["created"] is True
    assert tables.call("CREATE_TABLE", schema=USERS, if_not_exists=True)["created"] is False
    assert "already" in tables.refused("CREATE_TABLE", 409, schema=USERS)


def test_an_unknown_table_is_reported_without_the_names_of_the_catalog(tables: Tables) -> None:
    tables.create()
    for operation, fields in (("WRITE", {"records": [{"a": 1}]}), ("QUERY", {"sql": "SELECT 1"}), ("COMPACT", {})):
        for table, namespace in (("user", "default"), ("users", "other")):
            words = tables.refused(operation, 404, table=table, namespace=namespace, **fields)
            assert "tenant_" not in words
            assert "users" not in words.replace(repr(table), "")
