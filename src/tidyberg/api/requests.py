"""Request models: bodies and query filters."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from tidyberg.api.parameters import Name, NewScheduleId, Priority, RequestModel, TableName, TenantName
from tidyberg.model.expiry import EXPIRE
from tidyberg.model.job import JobStatus
from tidyberg.model.maintenance import MAINTAIN
from tidyberg.model.options import VerifyMode
from tidyberg.model.submission import COMPACT, DEFAULT_TENANT, Schedule
from tidyberg.service.requests import SubmitRequest
from tidyberg.settings.fields import Section, StrategyName
from tidyberg.settings.job_options import ExpireJobOptions, KindName, OptionsOfKind, plain_options
from tidyberg.settings.maintenance import PolicySettings
from tidyberg.settings.sections import Options

_COMPACT: JsonDict = {
    "catalog": "production",
    "namespace": "analytics",
    "table": "events",
    "strategy": "small_files",
    "options": {"target_file_size": "1GB", "max_cost": 10.0, "partition_filter": "date = '2024-01-01'"},
}
_STRATEGY = "small_files, delete_files, deletes_only, time_series, full, sort or auto."


class TableRequest(RequestModel):
    """The table of a job. Another kind of job adds its options."""

    catalog: Name | None = Field(None, description="A configured catalog; the default catalog if absent.")
    namespace: Name | None = Field(None, description="The namespace, if the table name does not contain it.")
    table: TableName
    tenant: TenantName | None = Field(
        None, description="The tenant of the job; only admins may name a tenant other than their own."
    )

    def _of_kind(self, kind: str, options: Section, priority: int = 0) -> SubmitRequest:
        return SubmitRequest(
            table=self.table,
            catalog=self.catalog,
            namespace=self.namespace,
            kind=kind,
            options=plain_options(options),
            priority=priority,
            tenant=self.tenant,
        )


class PlanRequest(TableRequest):
    """A table to plan for. Only `table` is required; the settings provide the rest."""

    model_config = ConfigDict(json_schema_extra={"examples": [_COMPACT, {"table": "sales", "strategy": "time-series"}]})

    strategy: StrategyName | None = Field(None, description=_STRATEGY)
    options: Options = Field(default_factory=Options, description="Options of the plan.")

    def to_request(self) -> SubmitRequest:
        strategy = self.strategy.value if self.strategy else None
        return replace(self._of_kind(COMPACT, self.options), strategy=strategy)


class CompactRequest(PlanRequest):
    """A table to compact. Only `table` is required; the settings provide the rest."""

    priority: Priority = 0
    verify: VerifyMode | None = Field(None, description="counts, full or off; from the settings if absent.")

    def to_request(self) -> SubmitRequest:
        verify = self.verify.value if self.verify else None
        return replace(super().to_request(), priority=self.priority, verify=verify)


class ExpirePlanRequest(TableRequest):
    """A table whose old snapshots expire. What `options` leaves out comes from the table, or is Iceberg's default."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"table": "analytics.events", "options": {"older_than": "5d"}}]}
    )

    options: ExpireJobOptions = Field(default_factory=ExpireJobOptions, description="Which snapshots expire.")

    def to_request(self) -> SubmitRequest:
        return self._of_kind(EXPIRE, self.options)


class ExpireRequest(ExpirePlanRequest):
    """A table whose old snapshots expire. What `options` leaves out comes from the table, or is Iceberg's default."""

    priority: Priority = 0

    def to_request(self) -> SubmitRequest:
        return replace(super().to_request(), priority=self.priority)


class MaintainPlanRequest(TableRequest):
    """A table to maintain. What `options` leaves out comes from its properties and from the settings."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"table": "analytics.events", "options": {"expire": {"older_than": "5d"}}}]}
    )

    options: PolicySettings = Field(default_factory=PolicySettings, description="Values of the policy.")

    def to_request(self) -> SubmitRequest:
        return self._of_kind(MAINTAIN, self.options)


class MaintainRequest(MaintainPlanRequest):
    """A table to maintain. What `options` leaves out comes from its properties and from the settings."""

    priority: Priority = 0

    def to_request(self) -> SubmitRequest:
        return replace(super().to_request(), priority=self.priority)


class ApplyRequest(RequestModel):
    """How to run a plan. The body is optional."""

    priority: Priority = 0


def _separated(value: Any) -> Any:
    """Treats `status=queued,running` as `status=queued&status=running`."""
    if isinstance(value, list):
        return [part for item in value for part in (item.split(",") if isinstance(item, str) else [item])]
    return value


class JobFilters(RequestModel):
    """Which jobs to return, in which order, and from which page."""

    status: Annotated[list[JobStatus], BeforeValidator(_separated)] = Field(
        default_factory=list, max_length=20, description="Only jobs with one of these statuses; may be repeated."
    )
    table: TableName | None = Field(None, description="Only jobs of this table: `name` or `namespace.name`.")
    namespace: Name | None = Field(None, description="The namespace of the table, if its name does not contain it.")
    catalog: Name | None = Field(None, description="The catalog of the table; the default catalog if absent.")
    tenant: TenantName | None = Field(None, description="Only jobs of this tenant.")
    created_by: Name | None = Field(None, description="Only jobs of this principal, or of `schedule:<id>`.")
    sort: Literal["-created_at", "created_at"] = Field("-created_at", description="Newest or oldest first.")
    limit: int = Field(50, ge=1, le=500, description="Maximum number of jobs on a page.")
    cursor: str | None = Field(
        None, max_length=512, pattern=r"^[!-~]*$", description="The `next_cursor` of the previous page."
    )


class ScheduleBody(RequestModel):
    """When to run which jobs for which tables."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "cron": "0 2 * * *",
                    "table": "analytics.events",
                    "strategy": "small_files",
                    "options": {"target_file_size": "512MB"},
                    "timezone": "Europe/Berlin",
                },
                {"kind": "expire", "cron": "0 3 * * *", "table": "analytics.*", "options": {"older_than": "5d"}},
            ]
        }
    )

    kind: KindName = Field(COMPACT, description="What the jobs do.")
    cron: str = Field(
        min_length=1, max_length=255, description="A cron expression with five fields.", examples=["0 */6 * * *"]
    )
    table: TableName = Field(description="A table as `namespace.name`, or a pattern such as `analytics.*`.")
    catalog: Name | None = Field(None, description="The default catalog if absent.")
    strategy: StrategyName | None = Field(None, description=_STRATEGY)
    options: OptionsOfKind = Field(
        default_factory=Options, validate_default=True, description="Options of each job, as its kind has them."
    )
    timezone: str = Field("UTC", min_length=1, max_length=64, description="Time zone of the cron expression.")
    jitter_seconds: int = Field(
        0, ge=0, le=86_400, description="Spread the start over this many seconds after the due time."
    )
    missed: Literal["skip", "once", "all"] = Field(
        "once", description="What to do about times that passed while no replica was running."
    )
    enabled: bool = Field(True, description="false: keep the schedule, but do not run it.")
    tenant: TenantName | None = Field(None, description="The tenant of the jobs; your own tenant if absent.")
    priority: Priority = 0

    def to_schedule(self, schedule_id: str, tenant: str = DEFAULT_TENANT) -> Schedule:
        return Schedule(
            schedule_id=schedule_id,
            kind=self.kind,
            cron=self.cron,
            catalog=self.catalog,
            table=self.table,
            strategy=self.strategy.value if self.strategy else None,
            options=plain_options(self.options),
            timezone=self.timezone,
            jitter_seconds=self.jitter_seconds,
            missed=self.missed,
            enabled=self.enabled,
            tenant=self.tenant or tenant,
            priority=self.priority,
        )


class NewSchedule(ScheduleBody):
    schedule_id: NewScheduleId | None = Field(None, description="A name of your choice; generated if absent.")
