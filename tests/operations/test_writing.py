"""WRITE appends once, beside other writers and after lost answers, and recommends compactions."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table.metadata import TableMetadata
from requests import ConnectionError as NoAnswer

from tests.builders.table_operations import USERS, Tables, open_tables
from tidyberg.errors import TableBusy
from tidyberg.model.tenant_namespaces import tenant_namespace
from tidyberg.operations import writing
from tidyberg.operations.small_files import check_after_write, estimated_small_files

THRESHOLD = 64 * 1024 * 1024
NAMESPACE = tenant_namespace("tenant_", "test-tenant", "default")


def user(number: int) -> dict[str, Any]:
    return {"name": f"User-{number}", "age": number}


def metadata(tables: Tables) -> TableMetadata:
    return tables.warehouse.catalog.load_table((NAMESPACE, tables.table)).metadata


def test_every_fifth_write_checks_and_recommends(tables: Tables) -> None:
    tables.create()
    answers = [tables.call("WRITE", records=[user(number)]) for number in range(10)]
    assert [answer["compaction_recommended"] for answer in answers] == [False] * 4 + [True] + [False] * 4 + [True]
    assert [answer["small_files_count"] for answer in answers] == [None] * 4 + [5] + [None] * 4 + [10]
    assert {answer["records_written"] for answer in answers} == {1}


def test_the_check_reads_nothing(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.create()
    for number in range(4):
        tables.call("WRITE", records=[user(number)])
    opened: list[str] = []
    real = check_after_write

    def watched(*arguments: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr("pyiceberg.io.pyarrow.PyArrowFileIO.new_input", lambda _, location: opened.append(location))
            return real(*arguments)

    monkeypatch.setattr(writing, "check_after_write", watched)
    assert tables.call("WRITE", records=[user(5)])["small_files_count"] == 5
    assert opened == []


def test_the_estimate_equals_the_files_after_writes_and_a_compaction(tables: Tables) -> None:
    tables.create()
    for number in range(4):
        tables.call("WRITE", records=[user(number)])
    assert tables.call("COMPACT", force=True)["stats"]["files_after"] == 1
    assert estimated_small_files(metadata(tables), THRESHOLD) == 1
    tables.call("WRITE", records=[user(9)])
    assert estimated_small_files(metadata(tables), THRESHOLD) == 2
    assert estimated_small_files(metadata(tables), 1) == 0


def test_the_estimate_survives_expired_snapshots(tables: Tables) -> None:
    tables.create()
    for number in range(4):
        tables.call("WRITE", records=[user(number)])
    whole = metadata(tables)
    expired = whole.model_copy(update={"snapshots": whole.snapshots[-2:]})
    assert estimated_small_files(expired, THRESHOLD) == 4


def test_no_write_checks_if_checks_are_off(tmp_path: Path) -> None:
    with open_tables(tmp_path, iceberg={"compaction": {"enabled": False, "opportunistic_check_interval": 1}}) as tables:
        tables.create()
        answer = tables.call("WRITE", records=[user(1)])
        assert (answer["compaction_recommended"], answer["small_files_count"]) == (False, None)


def test_a_write_compacts_by_itself_if_asked(tmp_path: Path) -> None:
    with open_tables(tmp_path, iceberg={"compaction": {"auto_compact": True}}) as tables:
        tables.create()
        answers = [tables.call("WRITE", records=[user(number)]) for number in range(5)]
        assert [answer.get("compacted") for answer in answers] == [None] * 4 + [True]
        assert len(tables.warehouse.live_files(tables.warehouse.catalog.load_table((NAMESPACE, "users")))) == 1
        assert tables.rows("SELECT count(*) AS n FROM users") == [{"n": 5}]


def test_a_failed_compaction_does_not_fail_the_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_tables(
        tmp_path,
        iceberg={"compaction": {"auto_compact": True, "opportunistic_check_interval": 1, "min_files_to_compact": 1}},
    ) as tables:
        tables.create()
        monkeypatch.setattr(type(tables.operations.compactor), "start", _refuse)
        answer = tables.call("WRITE", records=[user(1)])
        assert answer["records_written"] == 1
        assert "busy" in answer["compaction_error"]


def _refuse(*_: Any) -> None:
    raise TableBusy("The table is busy.")


def test_two_writers_at_once_both_land(tmp_path: Path) -> None:
    """The second writer is another process: it shares no lock with the first."""
    with open_tables(tmp_path) as tables, open_tables(tmp_path) as others:
        tables.create()
        barrier = threading.Barrier(6)

        def write(number: int) -> None:
            barrier.wait()
            for step in range(3):
                (tables, others)[number % 2].call("WRITE", records=[user(number * 10 + step)])

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(write, range(6)))
        ages = [row["age"] for row in tables.rows("SELECT age FROM users ORDER BY age")]
        assert ages == sorted(number * 10 + step for number in range(6) for step in range(3))


def test_a_compaction_beside_writes_loses_nothing(tables: Tables) -> None:
    tables.create()
    for number in range(5):
        tables.call("WRITE", records=[user(number)])
    with ThreadPoolExecutor(2) as pool:
        writes = pool.submit(lambda: [tables.call("WRITE", records=[user(number)]) for number in range(5, 15)])
        compactions = pool.submit(lambda: [tables.call("COMPACT", force=True) for _ in range(3)])
        writes.result()
        assert any(answer["compacted"] for answer in compactions.result())
    assert [row["age"] for row in tables.rows("SELECT age FROM users ORDER BY age")] == list(range(15))


Failing = Callable[..., list[int]]


@pytest.fixture
def failing_commit(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Makes the first commits fail with an error, before or after they land."""
    tables.create()

    def install(error: BaseException, lands: bool, times: int = 1) -> list[int]:
        calls = [0]
        kind = type(tables.operations.control.catalog("default"))
        real = kind.commit_table

        def commit(self: Catalog, *arguments: Any, **more: Any) -> Any:
            calls[0] += 1
            if calls[0] > times:
                return real(self, *arguments, **more)
            if lands:
                real(self, *arguments, **more)
            raise error

        monkeypatch.setattr(kind, "commit_table", commit)
        monkeypatch.setattr("time.sleep", lambda _: None)
        return calls

    return install


@pytest.mark.parametrize("error", [CommitFailedException("409"), CommitStateUnknownException("504"), NoAnswer("reset")])
@pytest.mark.parametrize("lands", [True, False])
def test_a_write_is_applied_once_after_a_lost_answer(
    tables: Tables, failing_commit: Failing, error: Exception, lands: bool
) -> None:
    failing_commit(error, lands)
    tables.call("WRITE", records=[user(1)])
    assert tables.rows("SELECT count(*) AS n FROM users") == [{"n": 1}]


def test_an_unknown_outcome_is_reported_with_the_id_to_repeat_it(
    tables: Tables, failing_commit: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server the commit may land later, so nothing is sent again."""
    monkeypatch.setattr(writing, "swaps_in_process", lambda _: False)
    calls = failing_commit(CommitStateUnknownException("504"), False)
    words = tables.refused("WRITE", 500, records=[user(1)], write_id="order-7")
    assert "Nobody can tell" in words
    assert "order-7" in words
    assert calls == [1]


def test_a_repeated_write_is_not_applied_again(tables: Tables) -> None:
    tables.create()
    first = tables.call("WRITE", records=[user(1)], write_id="order-7")
    again = tables.call("WRITE", records=[user(1)], write_id="order-7")
    assert ("repeated" in first, again["repeated"], again["records_written"]) == (False, True, 1)
    assert tables.rows("SELECT count(*) AS n FROM users") == [{"n": 1}]


def test_a_late_commit_of_the_same_id_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request was lost on its way. It lands while the second one, with the same id, commits."""
    with open_tables(tmp_path) as tables, open_tables(tmp_path) as late:
        tables.create()
        kind = type(tables.operations.control.catalog("default"))
        real = kind.commit_table
        calls = [0]

        def commit(self: Catalog, *arguments: Any, **more: Any) -> Any:
            calls[0] += 1
            if calls[0] == 1:
                late.call("WRITE", records=[user(1)], write_id="order-7")
            return real(self, *arguments, **more)

        monkeypatch.setattr(kind, "commit_table", commit)
        tables.call("WRITE", records=[user(1)], write_id="order-7")
        assert calls == [2]
        assert tables.rows("SELECT count(*) AS n FROM users") == [{"n": 1}]


def test_a_write_that_loses_every_race_leaves_no_files(tables: Tables, failing_commit: Failing, tmp_path: Path) -> None:
    failing_commit(CommitFailedException("409"), False, 1000)
    assert "nothing was written" in tables.refused("WRITE", 409, records=[user(1)])
    assert list(tmp_path.rglob("*.parquet")) == []
    assert list(tmp_path.rglob("*.avro")) == []


def test_partitions_are_written(tables: Tables) -> None:
    fields = {
        "day": {"type": "timestamp"},
        "name": {"type": "string"},
        "id": {"type": "long"},
        "country": {"type": "string"},
    }
    tables.create({"fields": fields}, partition_by=["country", "day(day)", "bucket(4, id)", "truncate(1, name)"])
    records = [{"day": f"2024-01-0{n}T00:00:00", "name": f"n{n}", "id": n, "country": "CH"} for n in range(1, 4)]
    tables.call("WRITE", records=records)
    found = tables.rows("SELECT id FROM users WHERE country = 'CH' ORDER BY id")
    assert [row["id"] for row in found] == [1, 2, 3]


def test_new_tables_have_the_properties_of_the_settings(tables: Tables) -> None:
    tables.create(USERS)
    assert metadata(tables).properties == {
        "write.target-file-size-bytes": str(128 * 1024 * 1024),
        "write.parquet.compression-codec": "zstd",
        "write.parquet.row-group-limit": "8192",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
    }
