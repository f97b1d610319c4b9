"""Runs a Spark session with Iceberg's Java runtime in its own process, and answers requests through pipes.

It is not in the process of the tests, because a Python process can have only one Spark, and tidyberg starts its own.
Requests and answers are pickles: `(operation, arguments)` in, `("ok", value)` or `("error", text)` out.
"""

import datetime as dt
import os
import pickle
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import Row, SparkSession

PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.50.3.0"
EPOCH = dt.date(1970, 1, 1)


class Server:
    def __init__(self, scratch: str) -> None:
        self._root = (
            SparkSession.builder.master("local[2]")
            .appName("oracle")
            .config("spark.jars.packages", PACKAGES)
            .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config("spark.driver.memory", os.environ.get("ORACLE_MEMORY", "1g"))
            # Tables here have a few rows, so the time that compilers take is never earned back.
            .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
            # Expressions are compiled, as for users: interpreted ones read timestamps of metadata tables as null.
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", scratch)
            .config("spark.sql.warehouse.dir", f"{scratch}/spark-warehouse")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.ui.enabled", "false")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        self._sessions: dict[tuple[str, str], SparkSession] = {}

    def attach(self, name: str, database: str, warehouse: str) -> tuple[str, str]:
        """Opens one session per catalog, because a session can configure a catalog name only once."""
        key = (name, database)
        if key not in self._sessions:
            session = self._root.newSession()
            prefix = f"spark.sql.catalog.{name}"
            session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
            session.conf.set(f"{prefix}.type", "jdbc")
            session.conf.set(f"{prefix}.uri", f"jdbc:sqlite:{database}")
            session.conf.set(f"{prefix}.warehouse", warehouse)
            session.conf.set(f"{prefix}.jdbc.schema-version", "V1")
            session.conf.set(f"{prefix}.cache-enabled", "false")
            session.conf.set("spark.sql.session.timeZone", "UTC")
            session.conf.set("spark.sql.shuffle.partitions", "2")
            session.sql(f"USE {name}")
            self._sessions[key] = session
        return key

    def attach_rest(self, name: str, uri: str) -> tuple[str, str]:
        """Opens a session with a REST catalog."""
        key = (name, uri)
        session = self._root.newSession()
        prefix = f"spark.sql.catalog.{name}"
        session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        session.conf.set(f"{prefix}.type", "rest")
        session.conf.set(f"{prefix}.uri", uri)
        session.conf.set(f"{prefix}.cache-enabled", "false")
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.sql(f"USE {name}")
        self._sessions[key] = session
        return key

    def sql(self, key: tuple[str, str], text: str) -> list[tuple[Any, ...]]:
        return [tuple(_plain(value) for value in row) for row in self._sessions[key].sql(text).collect()]

    def set_conf(self, key: tuple[str, str], name: str, value: str) -> None:
        self._sessions[key].conf.set(name, value)

    def equality_delete(
        self, key: tuple[str, str], table: str, keys: Mapping[str, Sequence[Any]], partition: Sequence[Any] | None
    ) -> str:
        """Commits one equality delete file over the given columns, with Iceberg's own writers."""
        session = self._sessions[key]
        jvm: Any = session._jvm
        java_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            session._jsparkSession, f"{key[0]}.{table}"
        )
        names = [field.name() for field in java_table.schema().columns() if field.name() in keys]
        schema = java_table.schema().select(names)
        field_ids = session.sparkContext._gateway.new_array(jvm.int, len(names))
        for position, name in enumerate(names):
            field_ids[position] = schema.findField(name).fieldId()
        # Spark's rows keep the exact types of columns, which Python numbers would lose.
        fields = {field.name: field for field in session.table(table).schema.fields}
        struct = type(session.table(table).schema)([fields[name] for name in names])
        frame = session.createDataFrame(list(zip(*(keys[name] for name in names), strict=True)), struct)

        path = java_table.locationProvider().newDataLocation(f"{uuid.uuid4().hex}-equality-deletes.parquet")
        file = java_table.io().newOutputFile(path)
        builder = (
            jvm.org.apache.iceberg.formats.FormatModelRegistry.equalityDeleteWriteBuilder(
                jvm.org.apache.iceberg.FileFormat.PARQUET,
                jvm.java.lang.Class.forName(
                    "org.apache.spark.sql.catalyst.InternalRow",
                    True,
                    jvm.java.lang.Thread.currentThread().getContextClassLoader(),
                ),
                jvm.org.apache.iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(file),
            )
            .schema(schema)
            .engineSchema(jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(schema))
            .spec(java_table.spec())
            .equalityFieldIds(field_ids)
        )
        if partition is not None:
            values = jvm.org.apache.iceberg.PartitionData(java_table.spec().partitionType())
            for position, value in enumerate(partition):
                # Iceberg stores days as numbers, but Spark shows them as dates.
                values.set(position, (value - EPOCH).days if isinstance(value, dt.date) else value)
            builder = builder.partition(values)
        writer = builder.build()
        for row in frame._jdf.queryExecution().executedPlan().executeCollect():
            writer.write(row)
        writer.close()
        java_table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
        return str(path)

    def add_column(
        self, key: tuple[str, str], table: str, parent: str | None, name: str, kind: str, default: Any
    ) -> None:
        session = self._sessions[key]
        jvm: Any = session._jvm
        java_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            session._jsparkSession, f"{key[0]}.{table}"
        )
        column = jvm.org.apache.iceberg.types.Types.fromPrimitiveString(kind)
        literal = jvm.org.apache.iceberg.expressions.Literal.of(default).to(column)
        java_table.updateSchema().addColumn(parent, name, column, None, literal).commit()

    def generic_rows(self, key: tuple[str, str], table: str) -> list[str]:
        """Returns rows as Iceberg's own reader reads them. It knows types that Spark lacks, such as time."""
        session = self._sessions[key]
        jvm: Any = session._jvm
        java_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            session._jsparkSession, f"{key[0]}.{table}"
        )
        names = [field.name() for field in java_table.schema().columns()]
        rows = []
        records = jvm.org.apache.iceberg.data.IcebergGenerics.read(java_table).build().iterator()
        while records.hasNext():
            record = records.next()
            # Java prints the address of a byte array, so take its contents instead.
            values = (record.getField(name) for name in names)
            rows.append(repr([bytes(v) if isinstance(v, bytearray | bytes) else _text(v) for v in values]))
        return sorted(rows)

    def rewrite_file(self, key: tuple[str, str], table: str, old: str, new: str, snapshot_id: int) -> None:
        """Replaces a data file by a copy of it, as a compaction that started from that snapshot would."""
        session = self._sessions[key]
        jvm: Any = session._jvm
        java_table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            session._jsparkSession, f"{key[0]}.{table}"
        )
        tasks = java_table.newScan().useSnapshot(snapshot_id).planFiles().iterator()
        while (file := tasks.next().file()).location() != old:
            pass
        copy = jvm.org.apache.iceberg.DataFiles.builder(java_table.spec()).copy(file).withPath(new).build()
        started = java_table.snapshot(snapshot_id).sequenceNumber()
        rewrite = java_table.newRewrite().validateFromSnapshot(snapshot_id)
        rewrite.rewriteFiles(jvm.java.util.Set.of(file), jvm.java.util.Set.of(copy), started).commit()

    def stop(self) -> None:
        self._root.stop()


def _text(value: Any) -> str | None:
    """Converts a Java object with its toString, and a byte buffer to its bytes."""
    if isinstance(value, JavaObject) and value.getClass().getSimpleName().endswith("ByteBuffer"):
        return repr(bytes(value.array())[value.position() : value.limit()])
    if isinstance(value, JavaObject):
        return str(value.toString())  # Python would print the items of lists and maps as addresses
    return None if value is None else str(value)


def _plain(value: Any) -> Any:
    """Converts Spark's structs to tuples, so that the client can unpickle them without Spark."""
    if isinstance(value, Row):
        return tuple(_plain(item) for item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


def main() -> None:
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not get between the answers on standard output
    with tempfile.TemporaryDirectory(prefix="oracle-") as scratch:
        try:
            server = Server(scratch)
        except Exception as error:  # noqa: BLE001  (the tests report why it did not start)
            _answer(answers, ("error", f"{type(error).__name__}: {error}"))
            return
        _answer(answers, ("ok", None))
        while True:
            try:
                operation, arguments = pickle.load(requests)
            except EOFError:
                break
            try:
                _answer(answers, ("ok", getattr(server, operation)(*arguments)))
            except Exception as error:  # noqa: BLE001  (the test that sent the request raises it)
                _answer(answers, ("error", f"{type(error).__name__}: {error}"))
        server.stop()


def _answer(stream: Any, answer: tuple[str, Any]) -> None:
    pickle.dump(answer, stream)
    stream.flush()


if __name__ == "__main__":
    main()
