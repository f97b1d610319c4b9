"""Fixtures and checks that all tests share."""

from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.checking.watching import watched_outputs
from tests.matrix import tally
from tests.oracle.fixtures import java, oracle
from tests.seed import CI, SEED
from tests.servers.redis_fixtures import redis_of_session, redis_server, redis_to_kill
from tests.servers.s3_fixtures import bucket, s3_server
from tests.sharing import ByServer, server_of
from tests.traced import choose_traced, collects_for_all, is_traced, not_traced
from tidyberg.testing import Warehouse

__all__ = ["bucket", "java", "oracle", "redis_of_session", "redis_server", "redis_to_kill", "s3_server"]

# Shared machines are slow at odd moments: a slow example is no defect, a wrong one is.
settings.register_profile(
    "tidyberg", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize=CI
)
settings.load_profile("tidyberg")


@pytest.fixture(scope="session", autouse=True)
def busy_machines_refuse_nothing() -> Iterator[None]:
    """Services refuse requests that would wait long, and a machine that runs tests often is that busy.

    Tests of it say how long a request may wait; all others get a minute.
    """
    from tidyberg.api import admission, app, event_loop_lag, thread_pool
    from tidyberg.settings.serving import Server

    default = Server().max_wait_seconds

    def patient(count: int, waiting: int, wait_seconds: float) -> thread_pool.FairThreadPool:
        return thread_pool.FairThreadPool(count, waiting, 60.0 if wait_seconds == default else wait_seconds)

    def welcoming(wait_seconds: float) -> admission.Admission:
        return admission.Admission(60.0 if wait_seconds == default else wait_seconds)

    is_beyond = event_loop_lag.LoopLag.is_beyond

    def is_wanted(self: event_loop_lag.LoopLag, seconds: float, method: str) -> bool:
        return seconds != default and is_beyond(self, seconds, method)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "FairThreadPool", patient)
        patch.setattr(app, "Admission", welcoming)
        patch.setattr(event_loop_lag.LoopLag, "is_beyond", is_wanted)
        yield


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    """An empty warehouse. Folders whose tests need tables in it override this fixture."""
    with Warehouse(tmp_path / "lab") as opened:
        yield opened


@pytest.fixture(autouse=True)
def outputs_are_true(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test has kernels write says nothing false, and neither does what manifests will say of it."""
    if request.node.get_closest_marker("unwatched") is not None:
        yield
        return
    with watched_outputs() as found:
        yield
    assert not found, "\n".join(found)


def pytest_report_header() -> str:
    return f"seed {SEED}: TEST_SEED={SEED} draws the same again"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What the cells of the matrix did; also kept in pytest's cache."""
    reports = {name: terminalreporter.stats.get(name, []) for name in ("passed", "failed")}
    cells = tally.of_reports(reports["passed"])
    if not cells:
        return
    failed = sum(tally.is_cell(report.nodeid) for report in reports["failed"])
    total = tally.summary(cells, failed)
    if getattr(config, "cache", None) is not None:
        config.cache.set("tidyberg/matrix", total)
    terminalreporter.section("matrix of writers, modes and readers")
    for line in tally.lines(total):
        terminalreporter.line(line)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's, asked where tests are shared out to processes
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return ByServer(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks Java is marked so, wherever it stands."""
    for item in items:
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.oracle)
            if server_of(item.nodeid) != "java":  # each process would start a Java of its own
                raise pytest.UsageError(f"{item.nodeid} uses Java: list it in tests/sharing.py")
        if "s3_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(1500))  # a machine's first run builds the server
    choose_traced(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    with nullcontext() if collects_for_all(session.config) else not_traced(session.config):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    with nullcontext() if is_traced(item) else not_traced(item.config):
        return (yield)
