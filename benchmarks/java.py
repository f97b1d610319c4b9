"""Runs Spark with Iceberg's Java runtime on a benchmark warehouse: its rewrite action and its writers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.50.3.0"
S3_PACKAGES = f"{PACKAGES},org.apache.iceberg:iceberg-aws-bundle:1.12.0"


def open_session(
    directory: Path, threads: int, scratch: Path, on_s3: Mapping[str, str] | None = None, memory: str = "4g"
) -> Any:
    """`on_s3` has PyIceberg's properties of a catalog whose tables are in an S3 store."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in _s3_settings(on_s3).items() if on_s3 else ():
        builder = builder.config(f"spark.sql.catalog.lab.{name}", value)
    warehouse = on_s3["warehouse"] if on_s3 else f"file://{directory / 'warehouse'}"
    return (
        builder.master(f"local[{threads}]")
        .config("spark.jars.packages", S3_PACKAGES if on_s3 else PACKAGES)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(scratch))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.catalog.lab", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lab.type", "jdbc")
        .config("spark.sql.catalog.lab.uri", f"jdbc:sqlite:{directory / 'catalog.db'}")
        .config("spark.sql.catalog.lab.warehouse", warehouse)
        .config("spark.sql.catalog.lab.jdbc.schema-version", "V1")
        .config("spark.sql.catalog.lab.cache-enabled", "false")
        .getOrCreate()
    )


def open_small_session(directory: Path, threads: int, scratch: Path, on_s3: Mapping[str, str] | None = None) -> Any:
    """Opens a session that shuffles few rows. Spark's default of 200 partitions would be slow for them."""
    session = open_session(directory, threads, scratch, on_s3)
    session.conf.set("spark.sql.shuffle.partitions", str(4 * threads))
    return session


def _s3_settings(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": properties["s3.endpoint"],
        "s3.path-style-access": "true",
        "s3.access-key-id": properties["s3.access-key-id"],
        "s3.secret-access-key": properties["s3.secret-access-key"],
        "client.region": properties["s3.region"],
    }


def expire_snapshots(session: Any, table: str, cutoff_ms: int) -> dict[str, int]:
    """Expires what is older. Returns the number of deleted files by kind."""
    (row,) = session.sql(
        f"CALL lab.system.expire_snapshots(table => '{table}', older_than => timestamp_millis({cutoff_ms}))"
    ).collect()
    return {name: int(number) for name, number in row.asDict().items()}


def rewrite_data_files(session: Any, table: str, target_bytes: int) -> None:
    options = f"map('rewrite-all', 'true', 'target-file-size-bytes', '{target_bytes}')"
    (row,) = session.sql(f"CALL lab.system.rewrite_data_files(table => '{table}', options => {options})").collect()
    assert row["rewritten_data_files_count"] > 0, row


def sort_data_files(session: Any, table: str, target_bytes: int, kind: str, columns: str) -> None:
    """Sorts by columns (`sort`), or along a curve of this name."""
    options = f"map('rewrite-all', 'true', 'target-file-size-bytes', '{target_bytes}')"
    order = f"{columns} ASC NULLS FIRST" if kind == "sort" else f"{kind}({columns})"
    (row,) = session.sql(
        f"CALL lab.system.rewrite_data_files(table => '{table}', strategy => 'sort', sort_order => '{order}', "
        f"options => {options})"
    ).collect()
    assert row["rewritten_data_files_count"] > 0, row


def append_files(session: Any, table: str, rows: Path) -> None:
    """Makes one commit with a data file for each file of rows, with the table's settings."""
    session.conf.set("spark.sql.files.openCostInBytes", session.conf.get("spark.sql.files.maxPartitionBytes"))
    session.read.parquet(str(rows)).writeTo(f"lab.{table}").append()


def delete_by_equality(session: Any, table: str, column: str, files: list[npt.NDArray[np.int64]], commits: int) -> None:
    """Writes one equality delete file for each array of keys of a long column, in a few commits."""
    import pyarrow as pa

    jvm = session._jvm
    java_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, f"lab.{table}")
    schema = java_table.schema().select([column])
    field_ids = session.sparkContext._gateway.new_array(jvm.int, 1)
    field_ids[0] = schema.findField(column).fieldId()
    row_class = jvm.java.lang.Class.forName(
        "org.apache.spark.sql.catalyst.InternalRow", True, jvm.java.lang.Thread.currentThread().getContextClassLoader()
    )
    # Spark's own rows keep the type. Otherwise Py4J would turn a small number into an Integer.
    frame = session.createDataFrame(pa.table({column: np.concatenate(files)})).coalesce(1)
    keys = iter(frame._jdf.queryExecution().executedPlan().executeCollect())
    delta = None
    for number, wanted in enumerate(files):
        path = java_table.locationProvider().newDataLocation(f"equality-{number:05d}.parquet")
        output = jvm.org.apache.iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(
            java_table.io().newOutputFile(path)
        )
        writer = (
            jvm.org.apache.iceberg.formats.FormatModelRegistry.equalityDeleteWriteBuilder(
                jvm.org.apache.iceberg.FileFormat.PARQUET, row_class, output
            )
            .schema(schema)
            .engineSchema(jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(schema))
            .spec(java_table.spec())
            .equalityFieldIds(field_ids)
            .build()
        )
        for _ in wanted:
            writer.write(next(keys))
        writer.close()
        delta = (delta or java_table.newRowDelta()).addDeletes(writer.toDeleteFile())
        if (number + 1) % -(-len(files) // commits) == 0 or number + 1 == len(files):
            delta.commit()
            delta = None
