"""The sections of tidyberg.yaml. Each one is a frozen model."""

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

from tidyberg.model.options import MOST_RETENTION_HOURS, Prices
from tidyberg.model.retry import RetryPolicy
from tidyberg.redact import redact, seal, unseal
from tidyberg.settings.fields import CronLine, ModeName, Section, Size, StrategyName, TimeZoneName
from tidyberg.settings.order_fields import BoundaryText, ColumnList, OrderText
from tidyberg.settings.scheduling import JitterSeconds, MissedPolicy

# Other spellings of options, and the units of their numbers.
OPTION_ALIASES: Mapping[str, tuple[str, str]] = {
    "partition_filter": ("where", ""),
    "target_file_size_mb": ("target_file_size", "MB"),
    "target_file_size_bytes": ("target_file_size", ""),
    "small_file_threshold_mb": ("small_file_threshold", "MB"),
    "small_file_threshold_bytes": ("small_file_threshold", ""),
    "min_files_to_compact": ("min_input_files", ""),
    "max_files_per_compaction": ("max_files", ""),
    "fragment_ratio_threshold": ("max_delete_ratio", ""),
    "sort_columns": ("sort", ""),
    "sort_order": ("sort", ""),
}

_PARQUET_PREFIX = "write.parquet."
_LIST_PRICES = Prices()
_RETRY = RetryPolicy()
_LONGEST_HOT_WINDOW = 366 * 86_400
DEFAULT_FILES_ABOVE = 5_000_000
DEFAULT_MANIFESTS_ABOVE = 1024**3  # about five million files; fewer are read before Spark has started


def _parquet_overrides(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {str(key).removeprefix(_PARQUET_PREFIX): str(item) for key, item in value.items()}


def _publish_aliases(schema: dict[str, Any]) -> None:
    """Add the other spellings to the published schema, because they are part of the format."""
    properties = schema["properties"]
    for alias, (name, unit) in OPTION_ALIASES.items():
        properties[alias] = {"type": "number", "exclusiveMinimum": 0} if unit else dict(properties[name])
        properties[alias]["description"] = f"Another spelling of {name}" + (f", in {unit}." if unit else ".")


class Options(Section):
    """The options of a plan. An unset option has the value of the next wider setting."""

    model_config = ConfigDict(json_schema_extra=_publish_aliases)

    strategy: StrategyName | None = Field(
        None, description="small_files, delete_files, deletes_only, time_series, full, sort or auto."
    )
    branch: str | None = Field(None, min_length=1, description="The branch to compact; main by default.")
    where: str | None = Field(
        None, description="A SQL predicate on the table's columns. Only files that may match are rewritten."
    )
    force: bool | None = Field(None, description="Rewrite files even if thresholds say that it is not worth it.")
    rewrite_to_current_spec: bool | None = Field(
        None, description="Move files of older partition specs into the table's current one."
    )
    ignore_wap_branches: bool | None = Field(
        None, description="Compact even if another branch is ahead of this one and waits to be published to it."
    )
    sort: OrderText = Field(
        None,
        description='"table" or true: sort rows by the table\'s sort order. Otherwise an order such as '
        '"a desc nulls last, bucket(16, id), day(ts)", or a list of its fields.',
    )
    zorder: ColumnList = Field(None, description="Cluster rows by these columns on a z-order curve.")
    hilbert: ColumnList = Field(None, description="Cluster rows by these columns on a Hilbert curve.")
    boundaries: BoundaryText = Field(
        None,
        description='Values of the first column of the sort order, such as "2026-11-09, 2026-11-12" or a list: rewrite '
        "only files that straddle one of them, and end the new files there.",
    )
    max_overlap_depth: int | None = Field(
        None, ge=1, description="Files are sorted again where more than this many overlap. Default: 4."
    )
    mode: ModeName | None = Field(
        None, description="copy: keep row groups if that is safe. encode: decode and encode all rows. Default: auto."
    )
    copy_min_row_group_bytes: Size | None = Field(
        None, description="The smallest average size of row groups that `auto` copies. Default: 8MB."
    )
    target_file_size: Size | None = Field(None, description="The size of output files. Default: the table's property.")
    min_file_size: Size | None = Field(None, description="Smaller files are candidates. Default: 0.75 x target.")
    max_file_size: Size | None = Field(None, description="Larger files are split. Default: 1.8 x target.")
    max_group_size: Size | None = Field(None, description="The largest size of a group. Default: 2 x target.")
    small_file_threshold: Size | None = Field(None, description="Smaller files are small files. Default: 32MB.")
    min_input_files: int | None = Field(None, ge=1, description="The fewest files worth a rewrite. Default: 5.")
    max_files: int | None = Field(None, ge=1, description="The most input files of one job.")
    max_cost: float | None = Field(None, ge=0, description="The most dollars that one job may cost.")
    max_parallelism: int | None = Field(None, ge=1, description="The most groups that are rewritten at once.")
    commit_every: int | None = Field(None, ge=1, description="Commit after every so many groups. Default: one commit.")
    max_record_batch_rows: int | None = Field(None, ge=1, description="The rows of an Arrow batch when files are read.")
    inline_delete_size: Size | None = Field(None, description="Up to this size, tasks carry deletes. Default: 10MB.")
    join_delete_size: Size | None = Field(
        None, description="Equality deletes that would take more memory are joined with the rows. Default: 256MB."
    )
    max_file_count_per_partition: int | None = Field(
        None, ge=1, description="A partition with more files needs compaction. Default: 100."
    )
    max_delete_ratio: float | None = Field(None, ge=0, description="The most delete files per data file. Default: 0.1.")
    hot_window_seconds: int | None = Field(
        None,
        ge=0,
        le=_LONGEST_HOT_WINDOW,
        description="The window in which commits make a partition hot, up to a year. Default: 600.",
    )
    hot_commits: int | None = Field(
        None, ge=1, description="The commits in the window that make a partition hot. Default: 2."
    )
    expire_snapshots: bool | None = Field(
        None, description="Afterwards, expire old snapshots of the table, and delete the files that only they need."
    )
    snapshot_retention_hours: float | None = Field(
        None,
        gt=0,
        le=MOST_RETENTION_HOURS,
        description="With expire_snapshots: the age in hours from which snapshots expire. Default: the table's "
        "property, or 5 days.",
    )
    parquet: Annotated[dict[str, str] | None, BeforeValidator(_parquet_overrides)] = Field(
        None, description="Overrides of the table's write.parquet.* properties, without the prefix."
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
        """Return only the options that were set."""
        return {name: getattr(self, name) for name in Options.model_fields if getattr(self, name) is not None}


class SmallFiles(Section):
    enabled: bool = Field(True, description="Whether `auto` may merge small files.")
    threshold: Size | None = Field(None, description="Smaller files are small files.")
    target_size: Size | None = Field(None, description="The size of output files.")


class DeleteFileSettings(Section):
    enabled: bool = Field(True, description="Whether `auto` may rewrite files because of their deletes.")
    fragment_ratio_threshold: float | None = Field(None, ge=0, description="The most delete files per data file.")


class Strategies(Section):
    small_files: SmallFiles = SmallFiles()
    delete_files: DeleteFileSettings = DeleteFileSettings()


class Compaction(Options):
    """Defaults for every table."""

    strategies: Strategies = Strategies()


class TableEntry(Section):
    """Settings for one table, or for all tables whose name matches a pattern."""

    name: str = Field(min_length=1, description="A table, namespace.table or a pattern such as analytics.*.")
    catalog: str | None = Field(None, description="Its catalog. By default any.")
    schedule: CronLine | None = Field(None, description="The cron line at whose times a service compacts it.")
    timezone: TimeZoneName | None = Field(
        None, description="The time zone of the schedule. Default: scheduler.timezone."
    )
    jitter_seconds: JitterSeconds | None = Field(None, description="Else scheduler.jitter_seconds.")
    missed: MissedPolicy | None = Field(None, description="skip, once or all. Default: scheduler.missed.")
    strategy: StrategyName | None = None
    options: Options = Options()


class Catalog(Section):
    """The connection to a catalog. All other keys are PyIceberg properties, and PyIceberg gets them unchanged."""

    model_config = ConfigDict(extra="allow")

    type: str | None = Field(None, description="rest, sql, hive or glue. By default the URI decides.")
    name: str | None = Field(None, description="Its name, only under `catalog:`. Default: `default`.")
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
        """Return all PyIceberg properties, with secrets wrapped."""
        keys = ("type", "uri", "warehouse", "credential", "token")
        named = {key: value for key in keys if (value := getattr(self, key)) is not None}
        merged = {**self.properties, **(self.model_extra or {}), **named}
        return {key: _as_property(value) for key, value in merged.items() if value is not None}

    def reveal(self) -> dict[str, Any]:
        """Return all PyIceberg properties. Use them only to open the catalog."""
        revealed: dict[str, Any] = unseal(self.sealed())
        return revealed


def _as_property(value: Any) -> Any:
    """Convert a value to a string, as PyIceberg expects. Nested properties such as `auth:` stay mappings."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class StorageSettings(Section):
    """The storage of the default catalog, for catalogs that do not vend it."""

    type: Literal["s3", "gcs"] = "s3"
    bucket: str | None = None
    region: str | None = None
    endpoint: str | None = None
    access_key_id: Annotated[SecretStr | None, WithJsonSchema({"type": "string"})] = None
    secret_access_key: Annotated[SecretStr | None, WithJsonSchema({"type": "string"})] = None

    def sealed(self) -> dict[str, Any]:
        """Return the PyIceberg properties, with secrets wrapped."""
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
    connect: str | None = Field(
        None, description="A Spark Connect address, sc://host:15002. It takes precedence over master."
    )
    driver_memory: str = Field("1g", pattern=r"^[0-9]+[kmgtKMGT]$", description="The heap size of the driver's JVM.")
    manifests_above: Size = Field(
        DEFAULT_MANIFESTS_ABOVE,
        description="If the manifests that a job needs are larger in total, Spark's tasks read them.",
    )
    files_above: int = Field(
        DEFAULT_FILES_ABOVE,
        ge=0,
        description="After so many files, Spark's tasks list the rest of a directory.",
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
        return redact(conf)  # I12: JSON output is shown to people


class PriceList(Section):
    """Prices in dollars. The defaults are the list prices of a large cloud."""

    get_per_1000: float = Field(_LIST_PRICES.get_per_1000, ge=0)
    put_per_1000: float = Field(_LIST_PRICES.put_per_1000, ge=0)
    compute_per_gb_second: float = Field(_LIST_PRICES.compute_per_gb_second, ge=0)
    storage_per_gb_month: float = Field(_LIST_PRICES.storage_per_gb_month, ge=0)

    def to_prices(self) -> Prices:
        return Prices(self.get_per_1000, self.put_per_1000, self.compute_per_gb_second, self.storage_per_gb_month)


class ResourceOverrides(Section):
    """The resources that a cluster allocates to a job, if the engine cannot know them."""

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
    replans: int = Field(2, ge=0, description="How many times a job plans conflicting groups again.")
    max_output_age_hours: float = Field(
        24.0, ge=0, description="The age up to which outputs of a dead job are reused. 0 reuses none."
    )

    @property
    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy(self.retries, self.min_wait_ms, self.max_wait_ms, self.total_timeout_ms)
