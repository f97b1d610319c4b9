"""All settings in one frozen value; where they come from is the loader's business."""

from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from tidyberg.model.options import VerifyMode
from tidyberg.settings.access import AccessSettings, Tenants, check_tenants
from tidyberg.settings.fields import Section, TimeZoneName
from tidyberg.settings.limits import LimitSettings
from tidyberg.settings.notifications import Notifications
from tidyberg.settings.scheduling import SchedulerSettings
from tidyberg.settings.sections import (
    Catalog,
    Commit,
    Compaction,
    PriceList,
    ResourceOverrides,
    Spark,
    StorageSettings,
    TableEntry,
)
from tidyberg.settings.serving import Queue, Retention, Server
from tidyberg.settings.store import Store
from tidyberg.settings.telemetry import Telemetry

DEFAULT_CATALOG = "default"


class Settings(Section):
    """tidyberg's settings. Constructed directly, it reads neither files nor the environment."""

    model_config = ConfigDict(title="tidyberg.yaml")

    engine: Literal["spark", "inline", "auto"] = Field(
        "spark", description="Where the rewriting runs; auto: inline what takes no longer than Spark takes to start."
    )
    spark: Spark = Spark()
    catalog: Catalog | None = Field(None, description="The catalog, when there is one; or several by name.")
    catalogs: dict[str, Catalog] = Field(default_factory=dict, description="Catalogs by name.")
    default_catalog: str | None = Field(None, description="Which catalog is meant when none is named.")
    default_namespace: str | None = Field(None, description="Where a table named without namespace is.")
    storage: StorageSettings | None = None
    compaction: Compaction = Compaction()
    limits: LimitSettings = Field(LimitSettings(), description="What no request may go beyond.")
    tables: tuple[TableEntry, ...] = Field((), description="What differs per table; the first match counts.")
    verify: VerifyMode = Field(VerifyMode.COUNTS, description="counts, full or off.")
    commit: Commit = Commit()
    prices: PriceList = PriceList()
    resources: ResourceOverrides = ResourceOverrides()
    store: Store = Field(default_factory=Store)
    timezone: TimeZoneName = Field("UTC", description="Of the times that are shown; `current_date` is UTC.")
    http_timeout_seconds: float = Field(60.0, gt=0, description="How long a catalog may take to answer.")
    server: Server = Field(Server(), description="Where a service listens.")
    queue: Queue = Field(Queue(), description="How a service's jobs wait and run.")
    retention: Retention = Field(Retention(), description="How long a service remembers.")
    access: AccessSettings = Field(AccessSettings(), description="Who may use a service.")
    tenants: Tenants = Field(default_factory=dict, description="Who shares a service, and what is theirs.")
    scheduler: SchedulerSettings = Field(
        SchedulerSettings(), description="Whether and when a service compacts by itself."
    )
    notifications: Notifications = Field(Notifications(), description="Whom a service tells of jobs that went wrong.")
    telemetry: Telemetry = Field(Telemetry(), description="Metrics, traces and logs of a service.")

    @model_validator(mode="after")
    def _catalogs_have_one_name_each(self) -> "Settings":
        if self.catalog is not None and self.catalog_name in self.catalogs:
            raise ValueError(f"catalog {self.catalog_name!r} is given twice: under `catalog:` and under `catalogs:`")
        return self

    @model_validator(mode="after")
    def _keys_are_of_known_tenants(self) -> "Settings":
        check_tenants(self.access, self.tenants)
        return self

    @property
    def catalog_name(self) -> str:
        """The name of the catalog under `catalog:`."""
        return (self.catalog.name if self.catalog else None) or DEFAULT_CATALOG

    @property
    def known_catalogs(self) -> dict[str, Catalog]:
        """Every catalog of these settings by name; PyIceberg's own configuration may add more."""
        own = {self.catalog_name: self.catalog} if self.catalog else {}
        return {**own, **self.catalogs}
