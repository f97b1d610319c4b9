"""Temporary faults: which ones a job survives, and which ones it must not treat as success."""

from pathlib import Path
from unittest.mock import patch

import pytest

from tests.builders.events_table import REF
from tests.faults.lab import Lab
from tests.faults.layer import Call, Kind, Layer, Wire, at
from tests.faults.wires import _Connection
from tidyberg.commit import snapshot
from tidyberg.errors import DamagedFile, StorageError
from tidyberg.observe import manifest_list
from tidyberg.record.process import is_alive, this_process
from tidyberg.record.sqlite import SqliteStore

pytestmark = pytest.mark.unwatched  # broken writes leave broken files, which no commit takes


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    made.restore()
    return made


def find(lab: Lab, wire: Wire, operation: str, part: str = "") -> Call:
    """The first call of that sort that a job makes."""
    calls = [call for call, _ in lab.compact().layer.calls]
    lab.restore()
    return next(call for call in calls if (call.wire, call.operation) == (wire, operation) and part in call.what)


@pytest.mark.parametrize(
    ("wire", "operation", "part"),
    [
        (Wire.KERNEL, "read", "region=eu"),
        (Wire.KERNEL, "write", "region=eu"),
        (Wire.KERNEL, "close", "region=us"),
        (Wire.FILES, "len", "tidyberg-"),
        (Wire.FILES, "create", "-m0.avro"),
        (Wire.FILES, "close", "snap-"),
        (Wire.FILES, "write", "metadata.json"),
        (Wire.CATALOG, "execute", "UPDATE"),
        (Wire.CATALOG, "commit", ""),
    ],
)
def test_one_failure_between_reading_rows_and_the_swap_repeats_no_work(
    lab: Lab, wire: Wire, operation: str, part: str
) -> None:
    layer = Layer(at(find(lab, wire, operation, part), Kind.ERROR))
    outcome = lab.compact(layer)
    assert layer.injected
    assert outcome.result == "committed"
    assert lab.check(outcome)


def test_a_swap_that_only_our_own_connection_sees_does_not_count(lab: Lab) -> None:
    """A COMMIT that fails leaves the transaction open, and its connection in the pool: SQLite does so for readers."""
    commit = find(lab, Wire.CATALOG, "commit")
    outcome = lab.compact(Layer(lambda call: Kind.ERROR if call.operation == commit.operation else None))
    assert isinstance(outcome.error, StorageError)
    assert not lab.check(outcome)


@pytest.mark.parametrize("lost", [Kind.ERROR, Kind.LOST_ANSWER])
def test_a_job_store_that_fails_after_the_swap_costs_the_table_nothing(lab: Lab, lost: Kind) -> None:
    """Whatever the store forgot to forget is the table's by then."""
    calls = [call for call, _ in lab.compact().layer.calls]
    after = [call for call in calls[calls.index(Call(Wire.CATALOG, "commit", "", 0)) :] if call.wire is Wire.STORE]
    assert after
    for call in after:
        if lost is Kind.LOST_ANSWER and call.what != "COMMIT":
            continue
        lab.restore()
        assert lab.check(lab.compact(Layer(at(call, lost))))


def test_a_manifest_list_that_became_shorter_is_not_copied(lab: Lab) -> None:
    read = manifest_list.read_listed_manifests
    with patch.object(snapshot, "read_listed_manifests", lambda *args: read(*args)[:-1]):
        outcome = lab.compact()
    assert isinstance(outcome.error, DamagedFile)
    assert not lab.check(outcome)


def test_the_job_store_goes_on_after_a_commit_that_failed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", is_alive)
    layer = Layer(at(Call(Wire.STORE, "execute", "COMMIT", 0), Kind.ERROR))
    store._file._writer = _Connection(layer, store._file._writer)  # type: ignore[assignment]
    with pytest.raises(StorageError, match="did not answer"):
        store.acquire("table", "job", this_process(), now_ms=0, ttl_ms=1)
    assert store.acquire("table", "job", this_process(), now_ms=0, ttl_ms=1) is None
    assert store.find(table=REF) == []
    store.close()
