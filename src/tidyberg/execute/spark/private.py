"""The only accesses to private attributes and undocumented modules of PySpark.

They work with the version that `SUPPORTED` names. `tests/execute/test_spark_private.py` touches each of them on the
installed PySpark.
"""

from pathlib import Path
from typing import Any

from tidyberg.errors import ConfigurationError

SUPPORTED = (4, 1)
# The environment variable that tells the JVM where to write the port and the secret of its gateway.
CONNECTION_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"


def check_version() -> None:
    """Raise ConfigurationError if the private attributes of the installed PySpark are not known."""
    from pyspark import __version__

    if tuple(__version__.split(".")[:2]) != tuple(map(str, SUPPORTED)):
        wanted = ".".join(map(str, SUPPORTED))
        raise ConfigurationError(
            f"tidyberg needs PySpark {wanted}, but PySpark {__version__} is installed.",
            hint=f'Run pip install "pyspark[connect]~={wanted}.0".',
        )


def active_context() -> Any:
    """Return the SparkContext that this process runs, or None."""
    return _context_class()._active_spark_context


def forget_context() -> None:
    """Make PySpark forget its context and session, so that it starts new ones."""
    from pyspark.sql import SparkSession

    _context_class()._active_spark_context = None
    SparkSession._instantiatedSession = None


def take_gateway() -> Any:
    """Return the gateway to the JVM, or None, and make PySpark forget it."""
    context_class = _context_class()
    gateway = context_class._gateway
    context_class._gateway = None
    context_class._jvm = None
    return gateway


def is_stopped(context: Any) -> bool:
    """Whether the JVM's side of a context has stopped. Raises if the JVM has died."""
    return bool(context._jsc.sc().isStopped())


def take_accumulator_server(context: Any) -> Any:
    """Return the context's server of accumulators, or None, and make the context forget it."""
    server, context._accumulatorServer = context._accumulatorServer, None
    return server


def read_connection(file: Path) -> tuple[int, str]:
    """Read the port and the secret that the JVM has written to the file named by `CONNECTION_FILE`."""
    from pyspark.serializers import UTF8Deserializer, read_int

    with file.open("rb") as written:
        return read_int(written), UTF8Deserializer().loads(written)


def open_gateway(conf: Any) -> Any:
    """Connect to the JVM that the environment variables PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET name."""
    from pyspark.java_gateway import launch_gateway

    return launch_gateway(conf)


def run_worker_daemon() -> None:
    """Run Spark's daemon of Python workers in this process, until Spark ends it."""
    from pyspark.daemon import manager

    manager()


def _context_class() -> Any:
    check_version()
    from pyspark import SparkContext

    return SparkContext
