"""AWS's runtime client runs our handler: its name resolves, events and answers are JSON, and limits are respected."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.sales_table import regional
from tests.serverless.functions import environment_of
from tests.servers.lambda_runtime import LambdaFunction
from tidyberg.testing import Warehouse


@pytest.fixture
def function(warehouse: Warehouse, tmp_path: Path) -> Iterator[LambdaFunction]:
    with LambdaFunction(tmp_path, environment_of(warehouse, tmp_path / "state")) as started:
        yield started


def test_a_sandbox_handles_events_of_every_kind_one_after_the_other(
    warehouse: Warehouse, function: LambdaFunction
) -> None:
    table = regional(warehouse)
    rows = warehouse.rows(table)

    full = {"strategy": "full"}
    compacted = function.invoke({"tables": ["db.sales"], "options": full}).answer
    assert compacted["finished"] is True, compacted
    assert compacted["tables"][0]["outcome"] == "committed"
    assert compacted["tables"][0]["done"]["files_replaced"] == 8
    assert warehouse.rows(table) == rows
    assert len(warehouse.live_files(table)) == 2

    scheduled = {
        "source": "aws.events",
        "detail-type": "Scheduled Event",
        "detail": {"tables": ["db.*"], "options": full},
    }
    assert function.invoke(scheduled).answer["tables"][0]["outcome"] == "tidy"

    unknown = function.invoke({"httpMethod": "GET", "path": "/nowhere"}).answer
    assert unknown["statusCode"] == 404
    assert json.loads(unknown["body"])["code"] == "not-found"

    malformed = function.invoke(["not", "an", "object"])
    assert malformed.error["errorType"] == "BadInput"
    assert "not a JSON object" in malformed.error["errorMessage"]

    failed = function.invoke({**scheduled, "detail": {"tables": ["db.missing", "db.sales"], "options": full}})
    assert failed.error["errorType"] == "JobsFailed"
    assert '"table": "db.sales", "outcome": "tidy"' in failed.error["errorMessage"]
    assert function.sandboxes == 1
