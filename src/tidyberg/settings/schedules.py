"""Schedules in tidyberg.yaml: any kind of job, for one table or for all that match a pattern."""

from pydantic import Field, model_validator

from tidyberg.model.submission import COMPACT, MAX_PRIORITY, MIN_PRIORITY
from tidyberg.settings.fields import CronLine, Section, StrategyName, TimeZoneName
from tidyberg.settings.job_options import KindName, OptionsOfKind, check_repeatable
from tidyberg.settings.scheduling import JitterSeconds, MissedPolicy
from tidyberg.settings.sections import Options


class ScheduleLine(Section):
    """Submits jobs of one kind at the times of a cron line. A table may have several."""

    kind: KindName = Field(COMPACT, description="What the jobs do: compact, expire or maintain.")
    cron: CronLine = Field(description="When the jobs are submitted.")
    table: str = Field(min_length=1, description="A table, namespace.table or a pattern such as analytics.*.")
    name: str | None = Field(None, min_length=1, max_length=255, description="Becomes part of the id of the schedule.")
    catalog: str | None = Field(None, description="Its catalog. Default: scheduler.catalogs.")
    strategy: StrategyName | None = Field(None, description="The strategy of a compaction.")
    options: OptionsOfKind = Field(default_factory=Options, description="The options of this kind of job.")
    timezone: TimeZoneName | None = Field(
        None, description="The time zone of the cron line. Default: scheduler.timezone."
    )
    jitter_seconds: JitterSeconds | None = Field(None, description="Else scheduler.jitter_seconds.")
    missed: MissedPolicy | None = Field(None, description="skip, once or all. Default: scheduler.missed.")
    enabled: bool = Field(True, description="false: keep the schedule, but do not run it.")
    priority: int = Field(0, ge=MIN_PRIORITY, le=MAX_PRIORITY, description="Jobs with a higher priority run first.")

    @property
    def schedule_name(self) -> str:
        return self.name or f"{self.table} {self.cron}"

    @model_validator(mode="after")
    def _only_compactions_have_a_strategy(self) -> "ScheduleLine":
        if self.kind != COMPACT and self.strategy is not None:
            raise ValueError(f"jobs of kind {self.kind} have no strategy")
        check_repeatable(self.options)
        return self
