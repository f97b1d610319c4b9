"""A `Control` over a warehouse in a temporary directory, on the inline engine."""

from collections.abc import Callable, Iterator

import pytest

from tests.builders.control import make_control
from tidyberg.control.control import Control
from tidyberg.testing import Warehouse

BuildControl = Callable[..., Control]


@pytest.fixture
def control(warehouse: Warehouse) -> Iterator[Control]:
    with make_control(warehouse) as control:
        yield control
