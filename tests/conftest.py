"""What every test shares."""

import pytest
from hypothesis import HealthCheck, settings

from tests.oracle.fixtures import java, oracle, warehouse
from tests.seed import SEED

__all__ = ["java", "oracle", "warehouse"]

# Shared machines are slow at odd moments: a slow example is no defect, a wrong one is.
settings.register_profile("tidyberg", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("tidyberg")


def pytest_report_header() -> str:
    return f"seed {SEED}: TEST_SEED={SEED} draws the same again"


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks Java is marked so, wherever it stands; tests that share a server stay in one process."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "oracle" in fixtures:
            item.add_marker(pytest.mark.oracle)
            item.add_marker(pytest.mark.xdist_group("java"))
        elif "rest_server" in fixtures:
            item.add_marker(pytest.mark.xdist_group("rest"))
        elif item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
