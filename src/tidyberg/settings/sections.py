"""The sections of tidyberg.yaml, each a frozen model."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    WithJsonSchema,
    field_serializer,
    model_validator,
)

from tidyberg.model.options import Prices
from tidyberg.model.retry import RetryPolicy
from tidyberg.redact import redact, seal, unseal
from tidyberg.settings.fields import CronLine, ModeName, Section, Size, StrategyName, TimeZoneName
from tidyberg.settings.scheduling import JitterSeconds, MissedPolicy

# Other spellings of an option, and the unit of their numbers.
OPTION_ALIASES: Mapping[str, tuple[str, str]] = {
    "partition_filter": ("where", ""),
    "target_file_size_mb": ("target_file_size", "MB"),
    "target_file_size_bytes": ("target_file_size", ""),
    "small_file_threshold_mb": ("small_file_threshold", "MB"),
    "small_file_threshold_bytes": ("small_file_threshold", ""),
    "min_files_to_compact": ("min_input_files", ""),
    "max_files_per_compaction": ("max_files", ""),
    "fragment_ratio_threshold": ("max_delete_ratio", ""),
}

_PARQUET_PREFIX = "write.parquet."
_LIST_PRICES = Prices()
_RETRY = RetryPolicy()
DEFAULT_MANIFESTS_ABOVE = 1024**3  # some five million files: fewer are read sooner than Spark starts


def _parquet_overrides(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {str(key).removeprefix(_PARQUET_PREFIX): str(item) for key, item in value.items()}


def _publish_aliases(schema: dict[str, Any]) -> None:
    """The other spellings are part of the format: the published schema knows them too."""
    properties = schema["properties"]
    for alias, (name, unit) in OPTION_ALIASES.items():
        properties[alias] = {"type": "number", "exclusiveMinimum": 0} if unit else dict(properties[name])
        properties[alias]["description"] = f"Another spelling of {name}" + (f", in {unit}." if unit else ".")


class Options(Section):
    """What a plan can be asked; unset means: whatever the next wider setting says."""

    model_config = ConfigDict(json_schema_extra=_publish_aliases)

    strategy: StrategyName | None = Field(None, description="small_files, delete_files, time_series, full or auto.")
    branch: str | None = Field(None, min_length=1, description="The branch to compact; main by default.")
    where: str | None = Field(None, description="SQL over the table's columns; only files that may match are taken.")
    force: bool | None = Field(None, description="Rewrite even where thresholds say it is not worth it.")
    rewrite_to_current_spec: bool | None = Field(
        None, description="Move files of older partition specs into the table's current one."
    )
    ignore_wap_branches: bool | None = Field(
        None, description="Compact even where another branch, ahead of this one, waits to be published to it."
    )
    mode: ModeName | None = Field(
        None, description="copy: row groups as they are, where that is safe; encode: all anew; auto by default."
    )
    copy_min_row_group_bytes: Size | None = Field(
        None, description="What row groups have on average where `auto` copies them; 8MB by default."
    )
    target_file_size: Size | None = Field(None, description="Size of the files to write; else the table's property.")
    min_file_size: Size | None = Field(None, description="Files below are candidates; 0.75 x target by default.")
    max_file_size: Size | None = Field(None, description="Files above are split; 1.8 x target by default.")
    max_group_size: Size | None = Field(None, description="Bytes rewritten as one group; 2 x target by default.")
    small_file_threshold: Size | None = Field(None, description="Files below it are small; 32MB by default.")
    min_input_files: int | None = Field(None, ge=1, description="Fewest files worth a rewrite; 5 by default.")
    max_files: int | None = Field(None, ge=1, description="Most input files that one job may take.")
    max_cost: float | None = Field(None, ge=0, description="Dollars that one job may cost.")
    max_parallelism: int | None = Field(None, ge=1, description="Most groups rewritten at the same time.")
    commit_every: int | None = Field(None, ge=1, description="Commit whenever so many groups are done; else once.")
    max_record_batch_rows: int | None = Field(None, ge=1, description="Rows per Arrow batch while reading.")
    inline_delete_size: Size | None = Field(None, description="Deletes up to it travel with a task; 10MB by default.")
    max_file_count_per_partition: int | None = Field(None, ge=1, description="Above it a partition is untidy; 100.")
    max_delete_ratio: float | None = Field(None, ge=0, description="Delete files per data file; 0.1 by default.")
    hot_window_seconds: int | None = Field(None, ge=0, description="How long after a write a partition is hot; 600.")
    hot_commits: int | None = Field(None, ge=1, description="Commits within the window that make it hot; 2.")
    parquet: Annotated[dict[str, str] | None, BeforeValidator(_parquet_overrides)] = Field(
        None, description="Overrides of the table's write.parquet.* properties, without that prefix."
    )

    @model_validator(mode="before")
    @classmethod
    def _resolve_aliases(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        resolved: dict[str, Any] = {}
        for key, value in data.items():
            name = str(key).replace("-", "_")
            name, unit = OPTION_ALIASES.get(name, (name, ""))
            if name in resolved:
                raise ValueError(f"{key!r} says the same as another key that is given too: {name!r}")
            resolved[name] = f"{value}{unit}" if unit and value is not None else value
        return resolved

    def given(self) -> dict[str, Any]:
        """Only the options that were set."""
        return {name: getattr(self, name) for name in Options.model_fields if getattr(self, name) is not None}


class SmallFiles(Section):
    enabled: bool = Field(True, description="Whether `auto` may merge small files.")
    threshold: Size | None = Field(None, description="Files below it are small.")
    target_size: Size | None = Field(None, description="Size of the files to write.")


class DeleteFileSettings(Section):
    enabled: bool = Field(True, description="Whether `auto` may rewrite files for their deletes.")
    fragment_ratio_threshold: float | None = Field(None, ge=0, description="Delete files per data file.")


class Strategies(Section):
    small_files: SmallFiles = SmallFiles()
    delete_files: DeleteFileSettings = DeleteFileSettings()


class Compaction(Options):
    """Defaults for every table."""

    strategies: Strategies = Strategies()


class TableEntry(Section):
    """What is different for one table, or for all tables whose name matches a pattern."""

    name: str = Field(min_length=1, description="table, namespace.table or a pattern such as analytics.*")
    catalog: str | None = Field(None, description="Only in this catalog; any when absent.")
    schedule: CronLine | None = Field(None, description="When a service compacts it, as a cron line.")
    timezone: TimeZoneName | None = Field(None, description="Of the schedule; else scheduler.timezone.")
    jitter_seconds: JitterSeconds | None = Field(None, description="Else scheduler.jitter_seconds.")
    missed: MissedPolicy | None = Field(None, description="skip, once or all; else scheduler.missed.")
    strategy: StrategyName | None = None
    options: Options = Options()


class Catalog(Section):
    """How to reach a catalog. Any further key is a PyIceberg property and is passed on as it is."""

    model_config = ConfigDict(extra="allow")

    type: str | None = Field(None, description="rest, sql, hive or glue; guessed from the URI when absent.")
    name: str | None = Field(None, description="Its name; `default` when absent. Only for `catalog:`.")
    uri: Annotated[str | SecretStr | None, WithJsonSchema({"type": "string"})] = None
    warehouse: Annotated[str | SecretStr | None, WithJsonSchema({"type": "string"})] = None
    credential: Annotated[SecretStr | None, WithJsonSchema({"type": "string"})] = None
    token: Annotated[SecretStr | None, WithJsonSchema({"type": "string"})] = None
    properties: dict[str, Any] = Field(default_factory=dict, description="PyIceberg properties.")

    @model_validator(mode="before")
    @classmethod
    def _seal_secrets(cls, data: Any) -> Any:
        return seal(data) if isinstance(data, Mapping) else data  # I12

    @model_validator(mode="after")
    def _refuse_misspelt_keys(self) -> "Catalog":
        for key in self.model_extra or {}:
            if close := get_close_matches(key, list(Catalog.model_fields), n=1, cutoff=0.85):
                raise ValueError(f"{key!r} is not a property; did you mean {close[0]!r}?")
        return self

    def sealed(self) -> dict[str, Any]:
        """All PyIceberg properties, secrets still wrapped."""
        keys = ("type", "uri", "warehouse", "credential", "token")
        named = {key: value for key in keys if (value := getattr(self, key)) is not None}
        merged = {**self.properties, **(self.model_extra or {}), **named}
        return {key: _as_property(value) for key, value in merged.items() if value is not None}

    def reveal(self) -> dict[str, Any]:
        """All PyIceberg properties, for opening the catalog and nothing else."""
        revealed: dict[str, Any] = unseal(self.sealed())
        return revealed


def _as_property(value: Any) -> Any:
    """PyIceberg properties are strings (nested ones such as `auth:` stay mappings)."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class StorageSettings(Section):
    """Where the default catalog keeps its data, for catalogs that do not say it themselves."""

    type: Literal["s3", "gcs"] = "s3"
    bucket: str | None = None
    region: str | None = None
    endpoint: str | None = None
    access_key_id: Annotated[SecretStr | None, WithJsonSchema({"type": "string"})] = None
    secret_access_key: Annotated[SecretStr | None, WithJsonSchema({"type": "string"})] = None

    def sealed(self) -> dict[str, Any]:
        """As PyIceberg properties."""
        if self.type == "gcs":
            found: dict[str, Any] = {"warehouse": self.bucket and f"gs://{self.bucket}"}
        else:
            found = {
                "warehouse": self.bucket and f"s3://{self.bucket}",
                "s3.region": self.region,
                "s3.endpoint": self.endpoint,
                "s3.access-key-id": self.access_key_id,
                "s3.secret-access-key": self.secret_access_key,
            }
        return {key: value for key, value in found.items() if value}


class Spark(Section):
    master: str = Field("local[*]", description="local[*], spark://…, k8s://… or yarn.")
    connect: str | None = Field(None, description="A Spark Connect address, sc://host:15002; wins over master.")
    driver_memory: str = Field("1g", pattern=r"^[0-9]+[kmgtKMGT]$", description="Heap of the driver's JVM.")
    manifests_above: Size = Field(
        DEFAULT_MANIFESTS_ABOVE,
        description="Manifests that a plan has to read are read by Spark's tasks when together they are larger.",
    )
    class_archive: bool = Field(
        True,
        description="Whether a local Spark starts from an archive of its classes, kept in $XDG_CACHE_HOME/tidyberg.",
    )
    conf: dict[str, str] = Field(default_factory=dict, description="Further Spark configuration.", repr=False)

    @model_validator(mode="before")
    @classmethod
    def _plain_conf(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and isinstance(conf := data.get("conf"), Mapping):
            return {**data, "conf": {str(key): _as_property(value) for key, value in conf.items()}}
        return data

    @field_serializer("conf", when_used="json")
    def _mask_conf(self, conf: dict[str, str]) -> Any:
        return redact(conf)  # I12: JSON is for showing


class PriceList(Section):
    """Dollars; the defaults are a large cloud's list prices."""

    get_per_1000: float = Field(_LIST_PRICES.get_per_1000, ge=0)
    put_per_1000: float = Field(_LIST_PRICES.put_per_1000, ge=0)
    compute_per_gb_second: float = Field(_LIST_PRICES.compute_per_gb_second, ge=0)
    storage_per_gb_month: float = Field(_LIST_PRICES.storage_per_gb_month, ge=0)

    def to_prices(self) -> Prices:
        return Prices(self.get_per_1000, self.put_per_1000, self.compute_per_gb_second, self.storage_per_gb_month)


class ResourceOverrides(Section):
    """What a cluster allocates to a job, where the engine cannot know it."""

    cores: int | None = Field(None, ge=1)
    memory_gb: float | None = Field(None, gt=0)


class Commit(Section):
    retries: int = Field(_RETRY.retries, ge=0, description="How many times a commit that lost a race is sent again.")
    min_wait_ms: int = Field(
        _RETRY.min_wait_ms, ge=0, description="The wait before the first retry. It doubles with each further one."
    )
    max_wait_ms: int = Field(_RETRY.max_wait_ms, ge=0, description="The longest wait between two attempts.")
    total_timeout_ms: int = Field(
        _RETRY.total_timeout_ms, ge=0, description="How long a commit is retried, counted from its first attempt."
    )
    replans: int = Field(2, ge=0, description="How often groups that conflicted are planned again within a job.")
    max_output_age_hours: float = Field(
        24.0, ge=0, description="Older outputs of a job that died are not reused; 0 reuses none."
    )

    @property
    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy(self.retries, self.min_wait_ms, self.max_wait_ms, self.total_timeout_ms)
