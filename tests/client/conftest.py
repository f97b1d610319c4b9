"""A complete service with workers, behind the API on a real socket."""

from collections.abc import Iterator

import pytest

from tests.api.conftest import _away_from_the_machines_own_configuration, serving, settings, warehouse
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.client import Client
from tidyberg.settings.settings import Settings

__all__ = ["_away_from_the_machines_own_configuration", "settings", "warehouse"]


@pytest.fixture
def url(settings: Settings) -> Iterator[str]:
    service = build_service(settings)
    service.start()
    try:
        with serving(create_app(service)) as address:
            yield address
    finally:
        service.stop()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        yield opened
