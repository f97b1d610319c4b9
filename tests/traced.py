"""Chooses the tests that coverage traces, because tracing nearly doubles the time of a test.

Every second test function is traced, in its first case. That can only lower the measured coverage, so the limit in
`pyproject.toml` is not easier to reach. TEST_COVERAGE=all traces every test, to see what no test reaches.
"""

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

_ONE_OF = 2
_ALL = os.environ.get("TEST_COVERAGE") == "all"
_IS_TRACED = pytest.StashKey[bool]()


def traced_cases(nodeids: Iterable[str]) -> set[str]:
    """Chooses by name, so that every run of the same tests measures the same."""
    first: dict[str, str] = {}
    for nodeid in nodeids:
        first.setdefault(nodeid.partition("[")[0], nodeid)
    return {nodeid for function, nodeid in first.items() if zlib.crc32(function.encode()) % _ONE_OF == 0}


def choose_traced(items: Sequence[pytest.Item]) -> None:
    chosen = traced_cases(item.nodeid for item in items)
    for item in items:
        item.stash[_IS_TRACED] = (_ALL or item.nodeid in chosen) and not _repeats(item)


def is_traced(item: pytest.Item) -> bool:
    return item.stash[_IS_TRACED]


def collects_for_all(config: pytest.Config) -> bool:
    """Returns True in one of the processes that share the tests: all of them import the same modules."""
    return bool(getattr(config, "workerinput", {}).get("workerid", "gw0") == "gw0")


@contextmanager
def not_traced(config: pytest.Config) -> Iterator[None]:
    coverage: Any = getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if coverage is None or not coverage.started:
        yield
        return
    coverage.pause()
    try:
        yield
    finally:
        coverage.resume()


def _repeats(item: pytest.Item) -> bool:
    """Random examples, long runs, and jobs that are there for Java to look at."""
    marked = item.get_closest_marker("slow") or item.get_closest_marker("oracle")
    return bool(marked or getattr(getattr(item, "obj", None), "is_hypothesis_test", False))
