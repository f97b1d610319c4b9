"""All settings in one frozen value. `load.py` reads them."""

from collections import Counter
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from tidyberg.model.options import VerifyMode
from tidyberg.settings.access import AccessSettings, Tenants, check_tenants
from tidyberg.settings.fields import Section, TimeZoneName
from tidyberg.settings.limits import LimitSettings
from tidyberg.settings.maintenance import MaintainSettings
from tidyberg.settings.notifications import Notifications
from tidyberg.settings.operations import IcebergSettings, OperationSettings
from tidyberg.settings.schedules import ScheduleLine
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
from tidyberg.settings.serverless import ServerlessSettings
from tidyberg.settings.serving import Queue, Retention, Server
from tidyberg.settings.store import Store
from tidyberg.settings.telemetry import Telemetry

DEFAULT_CATALOG = "default"


class Settings(Section):
    """The settings of tidyberg. The constructor reads neither files nor the environment."""

    model_config = ConfigDict(title="tidyberg.yaml")

    engine: Literal["spark", "inline", "auto"] = Field(
        "spark", description="The engine. auto runs a job inline if it would end before Spark has started."
    )
    spark: Spark = Spark()
    catalog: Catalog | None = Field(None, description="The only catalog, or several catalogs by name.")
    catalogs: dict[str, Catalog] = Field(default_factory=dict, description="Catalogs by name.")
    default_catalog: str | None = Field(None, description="The catalog for requests that name none.")
    default_namespace: str | None = Field(None, description="The namespace of tables that are named without one.")
    storage: StorageSettings | None = None
    compaction: Compaction = Compaction()
    limits: LimitSettings = Field(LimitSettings(), description="The limits that no request can exceed.")
    tables: tuple[TableEntry, ...] = Field((), description="Settings for some tables. The first match counts.")
    maintain: MaintainSettings = Field(MaintainSettings(), description="What `tidyberg maintain` may do, by scope.")
    schedules: tuple[ScheduleLine, ...] = Field((), description="Jobs at fixed times, of any kind.")
    verify: VerifyMode = Field(VerifyMode.COUNTS, description="counts, full or off.")
    commit: Commit = Commit()
    prices: PriceList = PriceList()
    resources: ResourceOverrides = ResourceOverrides()
    store: Store = Field(default_factory=Store)
    timezone: TimeZoneName = Field("UTC", description="The time zone of displayed times. `current_date` is UTC.")
    http_timeout_seconds: float = Field(60.0, gt=0, description="The time limit for each request to a catalog.")
    server: Server = Field(Server(), description="The address and the limits of a service.")
    queue: Queue = Field(Queue(), description="The queue of a service.")
    retention: Retention = Field(Retention(), description="How long a service keeps records.")
    access: AccessSettings = Field(AccessSettings(), description="Who may use a service.")
    tenants: Tenants = Field(default_factory=dict, description="The tenants that share a service, and what they own.")
    scheduler: SchedulerSettings = Field(SchedulerSettings(), description="The scheduled jobs of a service.")
    notifications: Notifications = Field(Notifications(), description="Notifications about failed and late jobs.")
    serverless: ServerlessSettings = Field(ServerlessSettings(), description="tidyberg as an AWS Lambda function.")
    operations: OperationSettings = Field(OperationSettings(), description="Table operations: `POST /database`.")
    iceberg: IcebergSettings = Field(IcebergSettings(), description="How table operations write and compact.")
    profiles: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Settings for each environment, by name. TIDYBERG_PROFILE chooses one, which wins over the others.",
    )
    telemetry: Telemetry = Field(Telemetry(), description="The metrics, traces and logs of a service.")

    @model_validator(mode="after")
    def _catalogs_have_one_name_each(self) -> "Settings":
        if self.catalog is not None and self.catalog_name in self.catalogs:
            raise ValueError(f"catalog {self.catalog_name!r} is given twice: under `catalog:` and under `catalogs:`")
        return self

    @model_validator(mode="after")
    def _schedules_differ(self) -> "Settings":
        named = Counter((line.kind, line.catalog, line.schedule_name) for line in self.schedules)
        for (kind, _, name), number in named.items():
            if number > 1:
                raise ValueError(f"schedules: {kind} {name!r} is given {number} times; give each a name")
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
        """All catalogs of these settings, by name. PyIceberg's configuration may have more."""
        own = {self.catalog_name: self.catalog} if self.catalog else {}
        return {**own, **self.catalogs}
