"""The bodies and filters that the API takes."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from tidyberg.api.parameters import Name, NewScheduleId, Priority, RequestModel, TableName, TenantName
from tidyberg.model.job import JobStatus
from tidyberg.model.options import VerifyMode
from tidyberg.model.submission import DEFAULT_TENANT, Schedule
from tidyberg.service.requests import SubmitRequest
from tidyberg.settings.fields import StrategyName
from tidyberg.settings.sections import Options

_COMPACT: JsonDict = {
    "catalog": "production",
    "namespace": "analytics",
    "table": "events",
    "strategy": "small_files",
    "options": {"target_file_size": "1GB", "max_cost": 10.0, "partition_filter": "date = '2024-01-01'"},
}
_STRATEGY = "small_files, delete_files, time_series, full or auto."


def asked_options(options: Options) -> dict[str, Any]:
    """Options as plain JSON, each under its one name, and only those that were given."""
    return options.model_dump(mode="json", exclude_none=True)


class PlanRequest(RequestModel):
    """A table to plan for. Only `table` is needed; settings fill in the rest."""

    model_config = ConfigDict(json_schema_extra={"examples": [_COMPACT, {"table": "sales", "strategy": "time-series"}]})

    catalog: Name | None = Field(None, description="Which catalog of the configuration; its default when absent.")
    namespace: Name | None = Field(None, description="Where the table is, when its name does not say so.")
    table: TableName
    strategy: StrategyName | None = Field(None, description=_STRATEGY)
    options: Options = Field(default_factory=Options, description="What the plan is asked.")
    tenant: TenantName | None = Field(None, description="For whom; only admins may name another than their own.")

    def to_request(self) -> SubmitRequest:
        return SubmitRequest(
            table=self.table,
            catalog=self.catalog,
            namespace=self.namespace,
            strategy=self.strategy.value if self.strategy else None,
            options=asked_options(self.options),
            tenant=self.tenant,
        )


class CompactRequest(PlanRequest):
    """A table to compact. Only `table` is needed; settings fill in the rest."""

    priority: Priority = 0
    verify: VerifyMode | None = Field(None, description="counts, full or off; the settings' when absent.")

    def to_request(self) -> SubmitRequest:
        verify = self.verify.value if self.verify else None
        return replace(super().to_request(), priority=self.priority, verify=verify)


class ApplyRequest(RequestModel):
    """How to run a plan; the body may be left out."""

    priority: Priority = 0


def _separated(value: Any) -> Any:
    """`status=queued,running` is `status=queued&status=running`."""
    if isinstance(value, list):
        return [part for item in value for part in (item.split(",") if isinstance(item, str) else [item])]
    return value


class JobFilters(RequestModel):
    """Which jobs, in which order, and from where on."""

    status: Annotated[list[JobStatus], BeforeValidator(_separated)] = Field(
        default_factory=list, max_length=20, description="Only with one of these; may be repeated."
    )
    table: TableName | None = Field(None, description="Only of this table: `name` or `namespace.name`.")
    namespace: Name | None = Field(None, description="The table's namespace, when its name does not say so.")
    catalog: Name | None = Field(None, description="The table's catalog; the default one when absent.")
    tenant: TenantName | None = Field(None, description="Only of this tenant.")
    created_by: Name | None = Field(None, description="Only submitted by this principal, or `schedule:<id>`.")
    sort: Literal["-created_at", "created_at"] = Field("-created_at", description="Newest or oldest first.")
    limit: int = Field(50, ge=1, le=500, description="How many a page holds.")
    cursor: str | None = Field(None, max_length=512, pattern=r"^[!-~]*$", description="A page's `next_cursor`.")


class ScheduleBody(RequestModel):
    """When to compact what."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "cron": "0 2 * * *",
                    "table": "analytics.events",
                    "strategy": "small_files",
                    "options": {"target_file_size": "512MB"},
                    "timezone": "Europe/Berlin",
                }
            ]
        }
    )

    cron: str = Field(min_length=1, max_length=255, description="Five fields.", examples=["0 */6 * * *"])
    table: TableName = Field(description="`namespace.name`, or a pattern such as `analytics.*`.")
    catalog: Name | None = Field(None, description="The default one when absent.")
    strategy: StrategyName | None = Field(None, description=_STRATEGY)
    options: Options = Field(default_factory=Options, description="What each plan is asked.")
    timezone: str = Field("UTC", min_length=1, max_length=64, description="Of the cron line's times.")
    jitter_seconds: int = Field(0, ge=0, le=86_400, description="Spread over this long after the due time.")
    missed: Literal["skip", "once", "all"] = Field(
        "once", description="What becomes of times that passed while no replica ran."
    )
    enabled: bool = Field(True, description="false: keep it, but do not run it.")
    tenant: TenantName | None = Field(None, description="For whom; your own tenant when absent.")
    priority: Priority = 0

    def to_schedule(self, schedule_id: str, tenant: str = DEFAULT_TENANT) -> Schedule:
        return Schedule(
            schedule_id=schedule_id,
            cron=self.cron,
            catalog=self.catalog,
            table=self.table,
            strategy=self.strategy.value if self.strategy else None,
            options=asked_options(self.options),
            timezone=self.timezone,
            jitter_seconds=self.jitter_seconds,
            missed=self.missed,
            enabled=self.enabled,
            tenant=self.tenant or tenant,
            priority=self.priority,
        )


class NewSchedule(ScheduleBody):
    schedule_id: NewScheduleId | None = Field(None, description="A name of your choice; made up when absent.")
