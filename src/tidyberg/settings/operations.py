"""Settings of table operations: the `iceberg` block, and the limits of the interface."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from tidyberg.model.sizes import MB
from tidyberg.settings.fields import Section, Size

# The thresholds of each environment. They win over the file, and an entry under `profiles:` wins over them.
BUILT_IN_PROFILES: Mapping[str, Mapping[str, Any]] = {
    name: {"iceberg": {"compaction": {"opportunistic_check_interval": interval, "min_files_to_compact": files}}}
    for name, interval, files in (("development", 5, 3), ("staging", 75, 15), ("production", 100, 20))
}


def _prefix(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9_]{0,64}", value):
        raise ValueError("a prefix has at most 64 lower-case letters, digits and '_'")
    return value


class IcebergWrite(Section):
    """Properties of tables that CREATE_TABLE makes."""

    target_file_size_mb: float = Field(128, gt=0, le=100_000, description="write.target-file-size-bytes, in MB.")
    compression_codec: Literal["zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"] = Field(
        "zstd", description="write.parquet.compression-codec."
    )
    parquet_row_group_size: int = Field(8192, ge=1, description="write.parquet.row-group-limit: the rows of a group.")


class IcebergCompaction(Section):
    """When WRITE recommends a compaction, and what COMPACT takes."""

    enabled: bool = Field(True, description="Whether WRITE checks if the table needs a compaction.")
    small_file_threshold_mb: float = Field(64, gt=0, le=100_000, description="Smaller files are small files.")
    min_files_to_compact: int = Field(3, ge=1, description="The fewest small files that are worth a compaction.")
    opportunistic_check_interval: int = Field(5, ge=1, description="WRITE checks after every so many commits.")
    max_files_per_compaction: int = Field(100, ge=1, description="The most files that one COMPACT rewrites.")
    auto_compact: bool = Field(
        False, description="Whether a WRITE that recommends a compaction also starts it. In a service, as a job."
    )


class IcebergSettings(Section):
    write: IcebergWrite = IcebergWrite()
    compaction: IcebergCompaction = IcebergCompaction()


class OperationSettings(Section):
    """The limits of table operations, and where the tables of tenants are."""

    enabled: bool = Field(False, description="Whether the service answers `POST /database`.")
    catalog: str | None = Field(None, description="The catalog of the tables. By default the default one.")
    namespace_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        "tenant_", description="Namespaces of tenants begin with this. Choose it so that no other namespace does."
    )
    max_records: int = Field(10_000, ge=1, description="The most records of one WRITE.")
    max_query_rows: int = Field(10_000, ge=1, description="The most rows that one QUERY returns.")
    max_result_size: Size = Field(4 * MB, description="The largest answer of a QUERY.")
    query_seconds: float = Field(30.0, gt=0, le=3600, description="The longest time that a QUERY may take.")
    query_memory: Size = Field(512 * MB, description="The most memory that a QUERY may use.")
    max_queries: int = Field(4, ge=1, description="The most queries that run at once. Further ones wait.")
    compact_wait_seconds: float = Field(
        300.0, gt=0, description="How long COMPACT in a service waits for its job. Then it answers with the job's id."
    )
