"""Settings for the scheduler: the default schedule, and the budget of `auto`."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tidyberg.settings.fields import CronLine, Section, TimeZoneName

MissedPolicy = Literal["skip", "once", "all"]
JitterSeconds = Annotated[int, Field(ge=0, le=86_400)]


class Auto(Section):
    """Inspects whole catalogs regularly, and compacts tables where it pays back, within a daily budget."""

    enabled: bool = False
    catalogs: tuple[str, ...] = Field(
        (), description="The catalogs that it inspects. By default all catalogs of the settings."
    )
    every_minutes: int = Field(60, ge=1, le=1440, description="How often it inspects them.")
    max_dollars_per_day: float | None = Field(None, ge=0, description="The most that its jobs may cost per day.")
    max_gb_hours_per_day: float | None = Field(
        None, ge=0, description="The most memory x time that they may use per day."
    )
    max_payback_scans: int = Field(
        100, ge=1, description="It compacts a table if that pays for itself within so many full scans."
    )
    max_tables_per_look: int = Field(50, ge=1, description="The most tables whose manifests one inspection reads.")

    @model_validator(mode="after")
    def _has_a_budget(self) -> "Auto":
        if self.enabled and self.max_dollars_per_day is None and self.max_gb_hours_per_day is None:
            raise ValueError("auto needs a budget: set max_dollars_per_day or max_gb_hours_per_day")
        return self


class Events(Section):
    """Takes events of commits, and looks at the tables that they name. A look decides as `auto` does."""

    enabled: bool = False
    catalogs: dict[str, str] = Field(
        default_factory=dict,
        description="What events call a catalog (a warehouse id, a prefix or a name), and its name in the settings.",
    )
    types: tuple[str, ...] = Field(
        (), description="More types of CloudEvents that report a commit, beside those of Lakekeeper and Polaris."
    )
    debounce_seconds: int = Field(
        60, ge=0, le=86_400, description="A look waits until its table had no event for so long."
    )
    max_wait_seconds: int = Field(600, ge=0, le=86_400, description="It waits no longer than this for a quiet moment.")
    cooldown_seconds: int = Field(600, ge=0, le=604_800, description="The least time between two looks at a table.")
    remember_hours: int = Field(24, ge=1, le=720, description="A repeated event is ignored for so long.")


class SchedulerSettings(Section):
    enabled: bool = Field(True, description="Whether this service submits scheduled jobs.")
    default_schedule: CronLine | None = Field(
        None, description='The schedule of tables that have none, such as "0 */6 * * *". By default there is none.'
    )
    catalogs: tuple[str, ...] = Field(
        (), description="The catalogs of entries that name no catalog. By default all catalogs of the settings."
    )
    timezone: TimeZoneName = Field("UTC", description="The time zone of the schedules in this file.")
    jitter_seconds: JitterSeconds = Field(
        0, description="Scheduled jobs start up to so many seconds late, to spread the load."
    )
    missed: MissedPolicy = Field("once", description="What to do about times that passed while no replica ran.")
    waiting_in_a_row: int = Field(
        5, ge=1, description="After so many jobs of a schedule in a row that left a table waiting, a metric counts it."
    )
    missed_after_seconds: int = Field(
        300, ge=60, description="How late a job may be submitted. After that, its time counts as missed."
    )
    auto: Auto = Auto()
    events: Events = Events()

    @model_validator(mode="after")
    def _events_have_a_budget(self) -> "SchedulerSettings":
        if self.events.enabled and self.auto.max_dollars_per_day is None and self.auto.max_gb_hours_per_day is None:
            raise ValueError("events need the budget of auto: set auto.max_dollars_per_day or max_gb_hours_per_day")
        return self
