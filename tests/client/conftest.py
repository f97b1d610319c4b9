"""A complete service with workers, behind the API on a real socket."""

from collections.abc import Iterator

import pytest

from tests.api.conftest import _away_from_the_machines_own_configuration, settings, warehouse
from tests.builders.api import running_service
from tidyberg.client import Client
from tidyberg.settings.settings import Settings

__all__ = ["_away_from_the_machines_own_configuration", "settings", "warehouse"]


@pytest.fixture
def url(settings: Settings) -> Iterator[str]:
    with running_service(settings) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as opened:
        yield opened
