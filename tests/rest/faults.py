"""Faults in answers to a commit, and what must be true after each of them."""

from pyiceberg.table import Table

from tests.rest.lab import RestLab
from tests.rest.proxy import Fault, FaultProxy
from tidyberg.control.control import Control
from tidyberg.model.job import Job

TIMEOUT = 0.7  # seconds the client waits; what is held or delayed for LATE comes after it
LATE = 1.6
UNKNOWN_STATUSES = (500, 502, 503, 504, 429, 408)

LANDED = {
    **{f"{status} after it landed": Fault(forward=True, status=status) for status in (*UNKNOWN_STATUSES, 409)},
    "dropped after it landed": Fault(forward=True, status=None),
    "answered too late": Fault(forward=True, status=200, delay_seconds=LATE),
}
LOST = {
    **{f"{status} instead": Fault(forward=False, status=status) for status in UNKNOWN_STATUSES},
    "dropped before": Fault(forward=False, status=None),
    "held and lost": Fault(forward=False, status=None, hold_seconds=LATE),
}


def through(lab: RestLab, proxy: FaultProxy, retries: int = 4) -> Control:
    return lab.control(proxy.uri, retries=retries, http_timeout_seconds=TIMEOUT)


def assert_committed_once(lab: RestLab, table: Table, before: list[str]) -> None:
    assert lab.operations(table)["replace"] == 1
    assert lab.rows(table) == before
    assert len(table.inspect.files()) == 1
    assert not lab.missing(table)
    assert not lab.leftovers(table)


def assert_untouched(lab: RestLab, table: Table, before: list[str]) -> None:
    assert lab.operations(table)["replace"] == 0
    assert lab.rows(table) == before
    assert not lab.missing(table)


def only_job(control: Control, lab: RestLab) -> Job:
    (job,) = control.history(lab.ref)
    return job
