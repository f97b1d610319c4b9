"""Implements `tidyberg doctor`: checks what a job needs, changes nothing and suggests fixes."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import catalog_secrets, list_tables, load_table
from tidyberg.cli.doctor_store import check_store, existing
from tidyberg.cli.flags import CommonFlags
from tidyberg.cli.formatting import plural, size
from tidyberg.cli.show_doctor import Check
from tidyberg.errors import TidybergError
from tidyberg.model.sizes import GB
from tidyberg.settings.catalogs import known_catalogs, open_catalog
from tidyberg.settings.load import find_config, load_settings
from tidyberg.settings.settings import Settings

JAVA_NEEDED = 17
_INSTALL_JAVA = (
    "Install a Java 17 or 21 runtime, e.g. `apt install openjdk-17-jre-headless` or `brew install openjdk@17`,"
    " and put it on PATH or in JAVA_HOME."
)
_LITTLE_DISK = 2 * GB


def examine(common: CommonFlags) -> list[Check]:
    checks = [check_python()]
    settings, check = check_settings(common)
    checks += [check_java(settings, os.environ), *check_packages(), check]
    if settings is not None:
        checks += check_catalogs(settings, common.catalog)
        checks += check_store(settings.store)
    return [*checks, check_disk(Path(tempfile.gettempdir()))]


def check_python() -> Check:
    return Check("ok", "Python", f"{platform.python_version()} ({sys.executable})")


def check_settings(common: CommonFlags) -> tuple[Settings | None, Check]:
    try:
        found = find_config(common.config, os.environ)
        settings = load_settings(common.config)
    except TidybergError as error:
        return None, Check("fail", "settings", error.message, error.hint)
    return settings, Check("ok", "settings", str(found) if found else "no file; defaults and the environment")


def check_java(settings: Settings | None, environ: Mapping[str, str]) -> Check:
    """Java is needed unless tasks run inline or on a remote Spark Connect server."""
    needed = settings is None or (settings.engine != "inline" and not settings.spark.connect)
    found = java_version(environ)
    if found is None:
        return Check("fail", "Java", "not found", _INSTALL_JAVA) if needed else Check("ok", "Java", "not needed")
    number, text = found
    if needed and number < JAVA_NEEDED:
        return Check("fail", "Java", f"{text} is too old", _INSTALL_JAVA)
    return Check("ok", "Java", text)


def java_version(environ: Mapping[str, str]) -> tuple[int, str] | None:
    home = environ.get("JAVA_HOME")
    at_home = str(Path(home) / "bin" / "java") if home else None
    java = at_home if at_home and Path(at_home).is_file() else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return None
    try:
        output = subprocess.run(  # noqa: S603 - the java that Spark itself would start
            [java, "-version"], capture_output=True, text=True, timeout=20, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', output)
    return (int(match[1]), f"{match[1]}{match[2]} ({java})") if match else None


def check_packages() -> Iterator[Check]:
    for name, package in (("PySpark", "pyspark"), ("PyArrow", "pyarrow"), ("PyIceberg", "pyiceberg")):
        try:
            yield Check("ok", name, version(package))
        except PackageNotFoundError:
            yield Check("fail", name, "not installed", f"pip install {package}")


def check_catalogs(settings: Settings, name: str | None) -> Iterator[Check]:
    known = known_catalogs(settings)
    if not known and name is None:
        cure = "Set CATALOG_URI, or write tidyberg.yaml. `tidyberg demo` needs none."
        yield Check("warn", "catalog", "none is configured", cure)
        return
    for each in [name] if name else known:
        yield from check_catalog(settings, each)


def check_catalog(settings: Settings, name: str) -> Iterator[Check]:
    label = f"catalog {name}"
    try:
        started = time.monotonic()
        catalog = open_catalog(settings, name)
        with catalog_errors(name, secrets=catalog_secrets(catalog)):
            namespaces = catalog.list_namespaces()
        yield Check("ok", label, f"{plural(len(namespaces), 'namespace')}, {time.monotonic() - started:.2f} s")
        yield from check_first_table(catalog, label)
    except TidybergError as error:
        yield Check("fail", label, error.message, error.hint)


def check_first_table(catalog: Catalog, label: str) -> Iterator[Check]:
    """Checks with one table whether tables load and workers can reach their storage."""
    tables = list_tables(catalog)
    if not tables:
        yield Check("warn", label, "has no tables")
        return
    table = load_table(catalog, tables[0])
    if _only_signed_remotely(table):
        yield Check("warn", label, f"{tables[0]} can only be reached by remote signing, which workers cannot use",
                    "Let the catalog vend credentials, or give s3.access-key-id and s3.secret-access-key.")  # fmt: skip
        return
    location = urlparse(table.location())
    if location.scheme in ("", "file") and not os.access(existing(Path(unquote(location.path))), os.W_OK):
        yield Check("fail", label, f"{tables[0]}: {table.location()} is not writable", "Check its owner and mode.")
        return
    yield Check("ok", label, f"{plural(len(tables), 'table')}; {tables[0]} loads from {table.location()}")


def _only_signed_remotely(table: Table) -> bool:
    properties = table.io.properties
    signs = str(properties.get("s3.remote-signing-enabled", "")).lower() == "true" or "s3.signer" in properties
    return signs and not properties.get("s3.access-key-id")


def check_disk(place: Path) -> Check:
    free = shutil.disk_usage(place).free
    if free >= _LITTLE_DISK:
        return Check("ok", "disk", f"{size(free)} free in {place}")
    return Check("warn", "disk", f"only {size(free)} free in {place}", "Spark spills there; set TMPDIR elsewhere.")
