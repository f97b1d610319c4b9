"""When the service compacts by itself: the schedule of tables without their own, and what `auto` may spend."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tidyberg.settings.fields import CronLine, Section, TimeZoneName

MissedPolicy = Literal["skip", "once", "all"]
JitterSeconds = Annotated[int, Field(ge=0, le=86_400)]


class Auto(Section):
    """Looks over whole catalogs now and then, and compacts what pays back, within a budget for the day."""

    enabled: bool = False
    catalogs: tuple[str, ...] = Field((), description="Which catalogs it looks over; all of the settings by default.")
    every_minutes: int = Field(60, ge=1, le=1440, description="How often it looks.")
    max_dollars_per_day: float | None = Field(None, ge=0, description="What its jobs of a day may cost.")
    max_gb_hours_per_day: float | None = Field(None, ge=0, description="Memory x time that they may take.")
    max_payback_scans: int = Field(
        100, ge=1, description="A rewrite is taken that pays for itself within so many full scans."
    )
    max_tables_per_look: int = Field(50, ge=1, description="Tables that one look reads the manifests of.")

    @model_validator(mode="after")
    def _has_a_budget(self) -> "Auto":
        if self.enabled and self.max_dollars_per_day is None and self.max_gb_hours_per_day is None:
            raise ValueError("auto needs a budget: set max_dollars_per_day or max_gb_hours_per_day")
        return self


class SchedulerSettings(Section):
    enabled: bool = Field(True, description="Whether this service submits what is due.")
    default_schedule: CronLine | None = Field(
        None, description='For all tables without a schedule of their own, such as "0 */6 * * *"; none by default.'
    )
    catalogs: tuple[str, ...] = Field(
        (), description="Where tables are looked for when an entry names no catalog; all of the settings by default."
    )
    timezone: TimeZoneName = Field("UTC", description="Of the schedules in this file.")
    jitter_seconds: JitterSeconds = Field(0, description="Schedules in this file start up to so much later.")
    missed: MissedPolicy = Field("once", description="What becomes of times that passed while no replica ran.")
    waiting_in_a_row: int = Field(
        5, ge=1, description="So many jobs of a schedule that all left a table waiting raise a metric and an alert."
    )
    missed_after_seconds: int = Field(300, ge=60, description="How late a time may be dealt with before it is missed.")
    auto: Auto = Auto()
