"""Factories of assets that compact a table after their upstream assets, and of checks of its health."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from tidyberg_dagster.jobs import JobRunner, TableRequest, TidybergError

RESOURCE = "tidyberg"


def tidyberg_compacted_table(
    table: str,
    *,
    deps: Iterable[Any] = (),
    kind: str = "compact",
    catalog: str | None = None,
    strategy: str | None = None,
    options: Mapping[str, Any] | None = None,
    resource_key: str = RESOURCE,
    **asset: Any,
) -> dg.AssetsDefinition:
    """Returns an asset that compacts `namespace.table` when the assets `deps` are materialized.

    Its key is the name of the table and `compacted`, such as `sales/orders/compacted`. Other arguments are those of
    `dg.asset`, such as `key`, `group_name`, `automation_condition` and `retry_policy`.
    """
    request = TableRequest(table, kind, catalog, strategy, options or {})
    described = {"key": [*table.split("."), "compacted"], "kinds": {"iceberg"}, "description": f"Compacts {table}."}

    @dg.asset(deps=list(deps), required_resource_keys={resource_key}, **{**described, **asset})
    def compacted(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        runner: JobRunner = getattr(context.resources, resource_key)
        try:
            job = runner.run(request, _key(context))
        except TidybergError as error:
            raise dg.Failure(str(error), metadata={"table": table}) from error
        context.log.info(f"job {job.job_id} of table {table} ended: {job.outcome}")
        return dg.MaterializeResult(metadata=job.metadata)

    return compacted


def _key(context: dg.AssetExecutionContext) -> str:
    """Returns a key of this try of the step. It is hashed, because asset keys may be long and have any letters."""
    asset = hashlib.sha256(context.asset_key.to_string().encode()).hexdigest()[:16]
    return f"dagster/{context.run.run_id}/{asset}/{context.retry_number}"


def tidyberg_health_check(
    asset: Any,
    table: str,
    *,
    at_least: int = 70,
    catalog: str | None = None,
    resource_key: str = RESOURCE,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
    **check: Any,
) -> dg.AssetChecksDefinition:
    """Returns a check of `asset` that fails while the health of `namespace.table` is below `at_least`."""
    request = TableRequest(table, catalog=catalog)
    described = {"name": "tidyberg_health", "description": f"{table} has a health of at least {at_least}."}

    @dg.asset_check(asset=asset, required_resource_keys={resource_key}, **{**described, **check})
    def health(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        runner: JobRunner = getattr(context.resources, resource_key)
        found = runner.health(request.table, request.catalog)
        return dg.AssetCheckResult(
            passed=found.score >= at_least,
            severity=severity,
            description="; ".join(found.reasons),
            metadata={"score": found.score, "files": found.files, "small_files": found.small_files},
        )

    return health
