"""A Lambda function with its tables on S3 and its job store in Redis: what a team deploys."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.s3_warehouse import S3Warehouse, properties_of
from tests.servers.lambda_runtime import LambdaFunction
from tests.servers.redis import RedisServer
from tests.servers.s3 import S3Server

TABLE = {"tenant_id": "test-tenant", "namespace": "default", "table": "users"}


@pytest.fixture
def function(s3_server: S3Server, bucket: str, redis_server: RedisServer, tmp_path: Path) -> Iterator[LambdaFunction]:
    properties = properties_of(s3_server, bucket)
    warehouse = S3Warehouse(tmp_path / "lab", properties)
    catalog = {"type": "sql", "uri": warehouse.properties["uri"], **properties}
    settings = {"catalogs": {"lab": catalog}, "operations": {"enabled": True}, "compaction": {"min_input_files": 2}}
    (tmp_path / "tidyberg.yaml").write_text(json.dumps(settings))
    environment = {"TIDYBERG_CONFIG": str(tmp_path / "tidyberg.yaml"), "REDIS_URL": redis_server.url}
    with LambdaFunction(tmp_path, environment, fresh_homes=True, forked=True) as started:
        yield started


def run(function: LambdaFunction, operation: str, **request: Any) -> dict[str, Any]:
    body = json.dumps({"operation": operation, **TABLE, **request})
    invocation = function.invoke({"httpMethod": "POST", "path": "/database", "body": body})
    assert invocation.answer is not None, invocation.error
    assert invocation.answer["statusCode"] == 200, invocation.answer
    answer: dict[str, Any] = json.loads(invocation.answer["body"])
    return answer


def test_a_function_creates_writes_compacts_and_reads_a_table(
    function: LambdaFunction, s3_server: S3Server, bucket: str, redis_server: RedisServer
) -> None:
    fields = {"name": {"type": "string", "required": True}, "age": {"type": "integer"}}
    run(function, "CREATE_TABLE", schema={"fields": fields})
    writes = [run(function, "WRITE", records=[{"name": f"User-{n}", "age": 20 + n}]) for n in range(1, 6)]
    assert [write["compaction_recommended"] for write in writes] == [False] * 4 + [True]
    assert writes[-1]["small_files_count"] == 5

    stats = run(function, "COMPACT", force=True, expire_snapshots=False)["stats"]
    assert (stats["files_before"], stats["files_after"]) == (5, 1)
    function.kill()  # what is in the sandbox is gone, and the table and the job are not
    asked = "SELECT name, age FROM users ORDER BY age"
    assert run(function, "QUERY", sql=asked)["records"] == [{"name": f"User-{n}", "age": 20 + n} for n in range(1, 6)]
    assert function.sandboxes == 2

    objects = [name for name in s3_server.objects(bucket) if name.endswith(".parquet")]
    assert len(objects) == 6
    with redis_server.client() as client:
        assert client.dbsize() > 0
