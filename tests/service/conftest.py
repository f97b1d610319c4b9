"""A service with a temporary warehouse, SQLite, the inline engine and a movable clock."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders.services import settings_of
from tidyberg.app import build_service
from tidyberg.service.service import Service
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
