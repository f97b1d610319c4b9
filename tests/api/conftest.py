"""A real service on SQLite and a warehouse, behind the API on a real socket."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders.api import Serve, serving
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse


@pytest.fixture(autouse=True)
def _away_from_the_machines_own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDYBERG_CONFIG", "CATALOG_URI", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path / "pyiceberg"))
    monkeypatch.setenv("TIDYBERG_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@contextmanager
def open_warehouse(directory: Path) -> Iterator[Warehouse]:
    with Warehouse(directory / "lake", name="default") as opened:
        opened.append_files(opened.create_table("public.events"), 12, 50)
        opened.append_files(opened.create_table("public.sales"), 3, 10)
        yield opened


def settings_of(warehouse: Warehouse, directory: Path) -> Settings:
    store = {"path": str(directory / "state" / "jobs.db")}
    return Settings.model_validate({"engine": "inline", "catalog": warehouse.properties, "store": store})


@contextmanager
def open_service(settings: Settings) -> Iterator[Service]:
    """Yields a service without workers, so that jobs keep the state that a test sets."""
    service = build_service(settings)
    yield service
    service.stop()


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with open_warehouse(tmp_path) as opened:
        yield opened


@pytest.fixture
def settings(warehouse: Warehouse, tmp_path: Path) -> Settings:
    return settings_of(warehouse, tmp_path)


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    with open_service(settings) as opened:
        yield opened


@pytest.fixture
def serve(service: Service) -> Iterator[Serve]:
    """Returns a function that serves the service, optionally with other settings or another authentication."""
    opened: list[Any] = []

    def start(server: Server | None = None, **more: Any) -> httpx.Client:
        manager = serving(create_app(service, server=server, **more))
        opened.append(manager)
        client = httpx.Client(base_url=manager.__enter__(), timeout=30)
        opened.append(client)
        return client

    yield start
    for one in reversed(opened):
        one.__exit__(None, None, None)


@pytest.fixture
def client(serve: Serve) -> httpx.Client:
    return serve()


@pytest.fixture(scope="module")
def shared_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client shared by the tests of a module. Their jobs mix."""
    directory = tmp_path_factory.mktemp("shared")
    with (
        open_warehouse(directory) as warehouse,
        open_service(settings_of(warehouse, directory)) as service,
        serving(create_app(service)) as url,
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        yield client
