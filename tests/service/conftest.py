"""A service with a temporary warehouse, SQLite, the inline engine and a movable clock."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders.schedulers import Lab, Make
from tests.builders.services import settings_of
from tidyberg.app import build_service
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse


@pytest.fixture
def make_service(warehouse: Warehouse) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(**queue: Any) -> Service:
        service = build_service(settings_of(warehouse, **queue))
        made.append(service)
        return service

    yield make
    for service in made:
        service.stop()


@pytest.fixture
def service(make_service: Callable[..., Service]) -> Service:
    """Returns a service that accepts jobs. It runs them after `start`."""
    return make_service()


@pytest.fixture
def make(warehouse: Warehouse) -> Iterator[Make]:
    """Creates empty tables, and a scheduler over them."""
    made: list[Lab] = []

    def build(names: tuple[str, ...] = ("db.events",), **settings: Any) -> Lab:
        for name in names:
            warehouse.create_table(name)
        given = {
            "engine": "inline",
            "catalogs": {"lab": warehouse.properties},
            "default_catalog": "lab",
            "store": {"path": str(warehouse.directory / "jobs.db")},
            **settings,
        }
        made.append(Lab(warehouse, Settings.model_validate(given)))
        return made[-1]

    yield build
    for lab in made:
        lab.service.records.close()
