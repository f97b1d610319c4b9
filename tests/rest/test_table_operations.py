"""Table operations through Iceberg's own REST catalog server, with answers to commits that get lost."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.table_operations import USERS
from tests.rest.faults import LANDED, LOST
from tests.rest.lab import RestLab
from tests.rest.proxy import Fault, FaultProxy
from tidyberg.app import build_control, table_operations
from tidyberg.operations.answers import OperationAnswer
from tidyberg.operations.operations import TableOperations
from tidyberg.settings.settings import Settings

pytestmark = pytest.mark.slow

TIMEOUT = 2.0


class Caller:
    """Calls operations through the proxy on a table of a tenant of its own."""

    def __init__(self, operations: TableOperations) -> None:
        self._operations = operations
        self._tenant = f"Tenant-{uuid.uuid4().hex[:12]}"
        assert self.call("CREATE_TABLE", schema=USERS).status == 200

    def call(self, operation: str, **fields: Any) -> OperationAnswer:
        return self._operations.handle(
            {"operation": operation, "tenant_id": self._tenant, "table": "users", **fields}, None
        )

    def ages(self) -> list[int]:
        return [row["age"] for row in self.call("QUERY", sql="SELECT age FROM users ORDER BY age").body["records"]]


@pytest.fixture
def caller(lab: RestLab, proxy: FaultProxy) -> Iterator[Caller]:
    settings = lab.settings(proxy.uri, retries=2, http_timeout_seconds=TIMEOUT)
    made = Settings.model_validate({**settings, "engine": "inline"})
    with build_control(made) as control:
        yield Caller(table_operations(made, control))


def test_the_sequence_passes(caller: Caller) -> None:
    answers = [caller.call("WRITE", records=[{"name": "a", "age": age}]).body for age in range(5)]
    assert [answer["small_files_count"] for answer in answers] == [None] * 4 + [5]
    stats = caller.call("COMPACT").body["stats"]
    assert (stats["files_before"], stats["files_after"]) == (5, 1)
    assert caller.ages() == list(range(5))


@pytest.mark.parametrize("fault", [LANDED["409 after it landed"], LANDED["503 after it landed"],
                                   LANDED["dropped after it landed"]])  # fmt: skip
def test_a_write_whose_answer_is_lost_lands_once(caller: Caller, proxy: FaultProxy, fault: Fault) -> None:
    proxy.spoil_commits(fault)
    answer = caller.call("WRITE", records=[{"name": "a", "age": 1}])
    assert answer.status == 200, answer.body
    assert caller.ages() == [1]


@pytest.mark.parametrize("fault", [LOST["503 instead"], LOST["dropped before"]])
def test_a_write_of_unknown_outcome_can_be_repeated_with_its_id(
    caller: Caller, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.spoil_commits(fault)
    write = {"records": [{"name": "a", "age": 1}], "write_id": "order-7"}
    first = caller.call("WRITE", **write)
    assert (first.status, first.body["code"]) == (500, "commit-state-unknown"), first.body
    assert "order-7" in first.body["error"]
    assert caller.call("WRITE", **write).status == 200
    assert caller.call("WRITE", **write).body["repeated"] is True
    assert caller.ages() == [1]
