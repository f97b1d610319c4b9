"""The private attributes of PySpark that tidyberg uses exist in the installed version, and only one file uses them."""

import inspect
import re
import struct
from pathlib import Path
from typing import Any

import pyspark
import pyspark.daemon
import pyspark.java_gateway
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import tidyberg
from tidyberg.errors import ConfigurationError
from tidyberg.execute.spark import private
from tidyberg.execute.spark.engine import SparkEngine

ATTRIBUTES = re.compile(
    r"\._(jsc|jvm|gateway|active_spark_context|instantiatedSession|accumulatorServer|jsparkSession|jsession|sc)\b"
    r"|_PYSPARK_|pyspark\.(java_gateway|serializers|daemon)"
)


def test_only_one_file_uses_private_attributes() -> None:
    root = Path(tidyberg.__file__).parent
    using = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if ATTRIBUTES.search(path.read_text(encoding="utf-8"))
    }
    assert using == {"execute/spark/private.py"}


def test_the_installed_pyspark_is_of_the_supported_version() -> None:
    private.check_version()


@pytest.mark.parametrize("version", ["4.0.1", "4.2.0", "4.10.0", "5.0.0.dev1", "41.0"])
def test_another_version_is_refused_by_name(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    for use in (private.check_version, private.active_context, private.take_gateway, private.forget_context):
        with pytest.raises(ConfigurationError, match=f"needs PySpark 4.1, but PySpark {version}"):
            use()


def test_the_class_attributes_exist() -> None:
    for name in ("_active_spark_context", "_gateway", "_jvm"):
        assert hasattr(SparkContext, name)
    assert hasattr(SparkSession, "_instantiatedSession")


def test_the_connection_file_is_read_as_the_launcher_of_pyspark_reads_it(tmp_path: Path) -> None:
    launcher = inspect.getsource(pyspark.java_gateway.launch_gateway)
    for name in (private.CONNECTION_FILE, "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        assert name in launcher
    (tmp_path / "connection").write_bytes(struct.pack("!i", 25333) + struct.pack("!i", 6) + b"secret")
    assert private.read_connection(tmp_path / "connection") == (25333, "secret")


def test_the_daemon_of_workers_has_its_entry_point() -> None:
    assert inspect.signature(pyspark.daemon.manager).parameters == {}


def test_a_running_context_has_the_attributes_of_instances() -> None:
    engine = SparkEngine("local[1]")
    try:
        engine.start()
        context: Any = private.active_context()
        assert context is engine._spark
        assert not private.is_stopped(context)
        server = private.take_accumulator_server(context)
        assert callable(server.shutdown)
        assert callable(server.handle_error)
        assert private.take_accumulator_server(context) is None
        context._accumulatorServer = server
        gateway = private.take_gateway()
        assert gateway.proc.poll() is None
        assert SparkContext._gateway is None
        SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
    finally:
        engine.close()
    assert private.active_context() is None
