"""Opens catalogs, finds tables in them, and checks the errors."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchIcebergTableError, SignError

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import list_tables, load_table
from tidyberg.errors import (
    AccessDenied,
    BadInput,
    CatalogUnreachable,
    ConfigurationError,
    DamagedFile,
    StorageError,
    TidybergError,
    UnknownCatalog,
    UnknownNamespace,
    UnknownTable,
    Unsupported,
)
from tidyberg.model.table import TableRef
from tidyberg.settings.catalogs import default_catalog_name, known_catalogs, open_catalog, resolve_table
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse, local_path


@pytest.fixture(autouse=True)
def _no_configuration_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path / "pyiceberg"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path / "lake") as opened:
        opened.create_table("analytics.events")
        opened.create_table("analytics.visits")
        opened.create_table("sales.orders")
        opened.create_table("sales.events")
        yield opened


@pytest.fixture
def settings(warehouse: Warehouse) -> Settings:
    return Settings.model_validate({"catalogs": {warehouse.name: warehouse.properties}})


def answering(status: int, body: str, seen: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            raw = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    return Handler


@contextmanager
def server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


def rest(uri: str, **more: Any) -> Settings:
    return Settings.model_validate({"catalog": {"type": "rest", "uri": uri}, **more})


def test_a_catalog_of_the_settings_opens(settings: Settings) -> None:
    catalog = open_catalog(settings, "lab")
    assert [str(ref) for ref in list_tables(catalog)] == [
        "analytics.events", "analytics.visits", "sales.events", "sales.orders",
    ]  # fmt: skip
    assert [str(ref) for ref in list_tables(catalog, "sales")] == ["sales.events", "sales.orders"]


def test_a_catalog_of_pyicebergs_own_configuration_opens(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in warehouse.properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAB__{key.upper()}", value)
    assert known_catalogs(Settings()) == ["lab"]
    assert default_catalog_name(Settings()) == "lab"
    assert len(list_tables(open_catalog(Settings()))) == 4


def test_a_catalog_of_a_pyiceberg_file_opens(warehouse: Warehouse, tmp_path: Path) -> None:
    lines = "".join(f"    {key}: {value}\n" for key, value in warehouse.properties.items())
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  lab:\n{lines}")
    assert len(list_tables(open_catalog(Settings(), "lab"))) == 4


def test_which_catalog_is_meant_when_none_is_named() -> None:
    two = {"a": {"uri": "http://a"}, "b": {"uri": "http://b"}}
    assert default_catalog_name(Settings.model_validate({"catalogs": two, "default_catalog": "b"})) == "b"
    assert default_catalog_name(rest("http://x")) == "default"
    assert default_catalog_name(Settings.model_validate({"catalog": {"name": "lab", "uri": "http://x"}})) == "lab"
    with pytest.raises(UnknownCatalog, match=r"Several catalogs are configured \(a, b\)"):
        default_catalog_name(Settings.model_validate({"catalogs": two}))
    with pytest.raises(UnknownCatalog, match="Set CATALOG_URI"):
        default_catalog_name(Settings())


def test_an_unknown_catalog_lists_the_known_ones(settings: Settings) -> None:
    with pytest.raises(UnknownCatalog, match=r"no catalog 'labb'. Did you mean 'lab'\? Known: lab"):
        open_catalog(settings, "labb")
    with pytest.raises(UnknownCatalog, match="None is configured"):
        open_catalog(Settings(), "lab")


@pytest.mark.parametrize("kind", ["dynamodb", "bigquery"])
def test_catalogs_that_cannot_commit_are_refused(kind: str) -> None:
    with pytest.raises(Unsupported, match="no commit can be made"):
        open_catalog(Settings.model_validate({"catalog": {"type": kind}}))


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"type": "oracle", "uri": "x"}, "'oracle' is not a type of catalog"),
        ({"uri": "ftp://x"}, "Could not infer the catalog type"),
        ({"type": "rest"}, "'default' has no uri"),
        ({"type": "sql", "uri": "sqlite:////nowhere/at/all.db"}, "which does not exist"),
        ({"type": "sql", "uri": "nonsense"}, "not usable"),
    ],
)
def test_unusable_properties_are_a_configuration_error(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        open_catalog(Settings.model_validate({"catalog": properties}))


def test_a_mistyped_path_does_not_become_a_new_catalog(tmp_path: Path) -> None:
    path = tmp_path / "typo.db"
    with pytest.raises(ConfigurationError, match="does not exist"):
        open_catalog(Settings.model_validate({"catalog": {"uri": f"sqlite:///{path}"}}))
    assert not path.exists()


def test_storage_feeds_the_catalogs_properties() -> None:
    seen: list[str] = []
    config = '{"defaults": {}, "overrides": {}}'
    with server(answering(200, config, seen)) as uri:
        storage = {"type": "s3", "bucket": "lake", "region": "eu-west-1"}
        catalog = open_catalog(rest(uri, storage=storage))
    assert catalog.properties["warehouse"] == "s3://lake"
    assert catalog.properties["s3.region"] == "eu-west-1"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, '{"error": {"message": "who?", "type": "NotAuthorized", "code": 401}}', AccessDenied),
        (403, '{"error": {"message": "no", "type": "Forbidden", "code": 403}}', AccessDenied),
        (500, '{"error": {"message": "oops", "type": "Server", "code": 500}}', CatalogUnreachable),
        (503, "", CatalogUnreachable),
        (404, "<html>not here</html>", ConfigurationError),
        (200, "<html>hello</html>", CatalogUnreachable),
    ],
)
def test_answers_of_a_rest_catalog_become_clear_errors(status: int, body: str, expected: type[TidybergError]) -> None:
    seen: list[str] = []
    with server(answering(status, body, seen)) as uri, pytest.raises(expected):
        open_catalog(rest(uri))
    assert len(seen) == (4 if status == 503 else 1), "an overloaded server is asked again, others are not"


def test_a_catalog_that_does_not_listen_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(CatalogUnreachable, match="'default' cannot be reached"):
        open_catalog(rest(uri))


def test_a_catalog_that_never_answers_times_out() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(CatalogUnreachable, match=r"did not answer in time|no connection"):
            open_catalog(rest(uri, http_timeout_seconds=0.1))
        assert time.monotonic() - started < 10


def test_near_names_are_offered_for_unknown_tables_and_namespaces(settings: Settings) -> None:
    catalog = open_catalog(settings)
    assert load_table(catalog, TableRef("lab", ("analytics",), "events")).name() == ("analytics", "events")
    with pytest.raises(UnknownTable, match=r"analytics.event in catalog 'lab'. Did you mean analytics.events"):
        load_table(catalog, TableRef("lab", ("analytics",), "event"))
    with pytest.raises(UnknownNamespace, match=r"'analytic' in catalog 'lab'. Did you mean 'analytics'"):
        load_table(catalog, TableRef("lab", ("analytic",), "events"))
    with pytest.raises(UnknownNamespace, match="'nope'"):
        list_tables(catalog, "nope")


def test_missing_metadata_is_a_damaged_file(settings: Settings, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("sales.orders")
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(DamagedFile, match=r"metadata file of sales\.orders is missing"):
        load_table(open_catalog(settings), TableRef("lab", ("sales",), "orders"))


RESOLUTIONS: list[tuple[dict[str, str], str, str | Callable[[], Any]]] = [
    ({}, "sales.orders", "sales.orders"),
    ({}, "orders", "sales.orders"),
    ({"default_namespace": "sales"}, "events", "sales.events"),
    ({"default_namespace": "a.b"}, "events", "a.b.events"),
]


@pytest.mark.parametrize(("more", "text", "expected"), RESOLUTIONS)
def test_a_table_is_found_by_its_name(warehouse: Warehouse, more: dict[str, str], text: str, expected: str) -> None:
    settings = Settings.model_validate({"catalogs": {"lab": warehouse.properties}, **more})
    assert str(resolve_table(settings, warehouse.catalog, text)) == expected


def test_a_name_that_is_not_unique_or_unknown_is_refused(settings: Settings, warehouse: Warehouse) -> None:
    with pytest.raises(UnknownTable, match=r"Several tables are called 'events': analytics\.events, sales\.events"):
        resolve_table(settings, warehouse.catalog, "events")
    with pytest.raises(UnknownTable, match="no table 'nothing' in any namespace"):
        resolve_table(settings, warehouse.catalog, "nothing")
    with pytest.raises(BadInput):
        resolve_table(settings, warehouse.catalog, " ")
    with pytest.raises(BadInput, match="is not a table name"):
        resolve_table(settings, warehouse.catalog, "sales.")


def test_a_database_that_is_none_is_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.write_text("this is no database, and long enough to be looked at " * 20)
    with pytest.raises(CatalogUnreachable, match="file is not a database"):
        open_catalog(Settings.model_validate({"catalog": {"uri": f"sqlite:///{path}"}}))


def test_a_missing_driver_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="client library that is not installed"):
        open_catalog(Settings.model_validate({"catalog": {"type": "sql", "uri": "mysql://me:pw@host/db"}}))


class ClientError(Exception):
    """As an optional client library raises it."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("An error occurred (AccessDeniedException): no", AccessDenied),
        ("Unable to locate credentials", AccessDenied),
        ("Could not connect to the endpoint", CatalogUnreachable),
    ],
)
def test_errors_of_optional_client_libraries_are_known_by_their_package(
    monkeypatch: pytest.MonkeyPatch, error: str, expected: type[TidybergError]
) -> None:
    monkeypatch.setattr(ClientError, "__module__", "botocore.exceptions")
    with pytest.raises(expected), catalog_errors("lab"):
        raise ClientError(error)


def test_a_bug_in_tidyberg_is_not_reported_as_an_error_of_the_catalog() -> None:
    with pytest.raises(ZeroDivisionError), catalog_errors("lab"):
        _ = 1 / 0


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (PermissionError("no"), AccessDenied),
        (OSError(28, "No space left on device"), StorageError),
        (NotImplementedError("views"), Unsupported),
        (NoSuchIcebergTableError("x"), UnknownTable),
        (SignError("x"), Unsupported),
    ],
)
def test_other_errors_while_reading_from_a_catalog(raised: Exception, expected: type[TidybergError]) -> None:
    with pytest.raises(expected), catalog_errors("lab", what="db.t"):
        raise raised


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda metadata: metadata["schemas"][0]["fields"][1].update(type="variant"), "a column of type variant"),
        (lambda metadata: metadata["schemas"][0]["fields"][1].update(type="hologram"), "a column of type hologram"),
        (lambda metadata: metadata.update({"format-version": 4}), "format version 4"),
    ],
    ids=["variant", "unheard-of", "version-4"],
)
def test_a_table_that_pyiceberg_cannot_load_is_refused_by_name(
    warehouse: Warehouse, change: Callable[[dict[str, Any]], None], named: str
) -> None:
    table = warehouse.create_table(format_version=3)
    location = Path(local_path(table.metadata_location))
    metadata = json.loads(location.read_text())
    change(metadata)
    location.write_text(json.dumps(metadata))
    with pytest.raises(Unsupported, match=rf"^db\.events .*{named}, which is not supported"):
        load_table(warehouse.catalog, TableRef("lab", ("db",), "events"))
