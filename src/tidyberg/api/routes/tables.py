"""Routes for tables: list them and show their health."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from tidyberg.api.answers import Moment
from tidyberg.api.authenticated_route import AuthenticatedRoute
from tidyberg.api.context import Context, CurrentContext, CurrentPrincipal
from tidyberg.api.error_responses import problems
from tidyberg.api.parameters import Name
from tidyberg.model.principal import Principal
from tidyberg.model.report import HealthReport, TableSummary

router = APIRouter(route_class=AuthenticatedRoute, tags=["tables"])


class TableAnswer(BaseModel):
    """A table as described by its newest snapshot."""

    catalog: str
    namespace: str
    table: str
    files: int | None = Field(description="null if the snapshot summary does not contain it.")
    bytes: int | None
    records: int | None
    delete_files: int | None
    last_commit_at: Moment | None
    error: str | None = Field(description="Why the table could not be read.")


class TableList(BaseModel):
    tables: list[TableAnswer]
    total: int = Field(description="Number of tables before the limit.")


class PartitionHealth(BaseModel):
    partition: str
    files: int
    small_files: int
    bytes: int
    records: int
    delete_files: int


class HealthAnswer(BaseModel):
    """The health score of a table and the reasons for it."""

    catalog: str
    namespace: str
    table: str
    branch: str
    snapshot_id: int | None
    last_commit_at: Moment | None
    score: int = Field(ge=0, le=100, description="0 (untidy) to 100 (tidy).")
    reasons: list[str]
    files: int
    small_files: int
    bytes: int
    records: int
    delete_files: int
    target_file_size: int
    snapshots: int
    manifests: int
    dead_bytes: int = Field(description="Bytes of files that only older snapshots reference; freed when these expire.")
    metadata_bytes: int | None = Field(description="Size of the current metadata.json; null if unknown.")
    deletes_old_metadata: bool = Field(description="Whether write.metadata.delete-after-commit.enabled is on.")
    partitions_total: int
    partitions: list[PartitionHealth] = Field(description="The worst first; at most `partitions` of them.")


@router.get("/tables", summary="List tables", responses=problems(404))
async def list_tables(
    context: CurrentContext,
    who: CurrentPrincipal,
    catalog: Annotated[Name | None, Query(description="The default catalog if absent.")] = None,
    namespace: Annotated[Name | None, Query(description="Only tables of this namespace.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of tables to return.")] = 1000,
) -> TableList:
    """Returns the tables of a catalog that you may see, with figures of their newest snapshots."""
    return await context.catalog_pool(_tables, context, who, catalog, namespace, limit)


def _tables(context: Context, who: Principal, catalog: str | None, namespace: str | None, limit: int) -> TableList:
    found = context.service.tables(who, catalog, namespace)
    return TableList(tables=[_table(summary) for summary in found[:limit]], total=len(found))


@router.get(
    "/tables/{catalog}/{namespace}/{table}/health", summary="Show the health of a table", responses=problems(404)
)
async def table_health(
    catalog: Annotated[Name, Path(examples=["default"])],
    namespace: Annotated[
        Name, Path(description="The levels of the namespace, joined by dots.", examples=["analytics"])
    ],
    table: Annotated[Name, Path(examples=["events"])],
    context: CurrentContext,
    who: CurrentPrincipal,
    partitions: Annotated[int, Query(ge=0, le=100_000, description="Maximum number of partitions to return.")] = 100,
) -> HealthAnswer:
    """Returns a score from 0 to 100 with the reason for every lost point. Reads only metadata."""
    return await context.catalog_pool(_health, context, who, catalog, namespace, table, partitions)


def _health(
    context: Context, who: Principal, catalog: str, namespace: str, table: str, partitions: int
) -> HealthAnswer:
    report = context.service.health(context.service.resolve(table, catalog, namespace, who=who), who)
    return health_answer(report, partitions)


def health_answer(report: HealthReport, partitions: int) -> HealthAnswer:
    return HealthAnswer(
        catalog=report.table.catalog,
        namespace=".".join(report.table.namespace),
        table=report.table.name,
        branch=report.branch,
        snapshot_id=report.snapshot_id,
        last_commit_at=report.snapshot_ms,
        score=report.health.score,
        reasons=list(report.health.reasons),
        files=report.files,
        small_files=report.small_files,
        bytes=report.bytes,
        records=report.records,
        delete_files=report.delete_files,
        target_file_size=report.target_file_size,
        snapshots=report.snapshots,
        manifests=report.manifests,
        dead_bytes=report.dead_bytes,
        metadata_bytes=report.metadata_bytes,
        deletes_old_metadata=report.deletes_old_metadata,
        partitions_total=len(report.partitions),
        partitions=[
            PartitionHealth(
                partition=label,
                files=numbers.files,
                small_files=numbers.small_files,
                bytes=numbers.bytes,
                records=numbers.records,
                delete_files=numbers.delete_files,
            )
            for label, numbers in report.partitions[:partitions]
        ],
    )


def _table(summary: TableSummary) -> TableAnswer:
    return TableAnswer(
        catalog=summary.table.catalog,
        namespace=".".join(summary.table.namespace),
        table=summary.table.name,
        files=summary.files,
        bytes=summary.bytes,
        records=summary.records,
        delete_files=summary.delete_files,
        last_commit_at=summary.snapshot_ms,
        error=summary.error,
    )
