"""What every test shares."""

import pytest
from hypothesis import HealthCheck, settings

from tests.oracle.fixtures import java, oracle, warehouse

__all__ = ["java", "oracle", "warehouse"]

# Shared machines are slow at odd moments: a slow example is no defect, a wrong one is.
settings.register_profile("tidyberg", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("tidyberg")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks Java is marked so, wherever it stands."""
    for item in items:
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.oracle)
