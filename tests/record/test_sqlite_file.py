"""The SQLite file: its permissions, files of older and newer versions, and failures."""

import errno
import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from tests.builders.job_records import job
from tests.builders.submissions import submission
from tidyberg.errors import ConfigurationError, StorageError
from tidyberg.record import shared_sync
from tidyberg.record.process import is_alive, this_process
from tidyberg.record.records import open_sqlite
from tidyberg.record.shared_sync import SharedSync
from tidyberg.record.sqlite import SqliteStore
from tidyberg.record.sqlite_file import SqliteFile
from tidyberg.record.sqlite_ledger import SqliteLedger
from tidyberg.record.sqlite_schema import VERSIONS


def test_a_store_that_cannot_be_opened_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"store\.path"):
        SqliteStore(tmp_path / "file" / "jobs.db", is_alive)


def test_a_store_that_is_no_database_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("not a database, but long enough to be one " * 100)
    with pytest.raises(ConfigurationError, match=r"cannot be opened"):
        SqliteStore(tmp_path / "jobs.db", is_alive)


def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = SqliteFile(tmp_path / "new" / "t.db")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()}
    file.close()
    assert {"t.db", "t.db-wal"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_sqlite_is_new_enough_for_the_store() -> None:
    assert sqlite3.sqlite_version_info >= (3, 24)


def test_a_file_without_a_version_number_keeps_its_jobs(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        for statement in VERSIONS[0]:
            connection.execute(statement)
        connection.execute('INSERT INTO leases VALUES (\'t\', \'a\', \'{"host":"h","pid":1,"started":1}\', 100)')
    connection.close()
    records = open_sqlite(tmp_path / "jobs.db", lambda _: None)
    assert records.store.acquire("t", "b", this_process(), now_ms=50, ttl_ms=1) == "a"
    assert records.queue.counts() == {}
    records.close()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    SqliteFile(tmp_path / "jobs.db").close()
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute(f"PRAGMA user_version={len(VERSIONS) + 1}")
    connection.close()
    with pytest.raises(ConfigurationError, match=r"newer tidyberg.*Upgrade"):
        SqliteFile(tmp_path / "jobs.db")


def test_a_change_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "jobs.db")
    with pytest.raises(StorageError, match="did not answer"), file.transaction() as connection:
        connection.executemany("INSERT INTO dues VALUES (?, ?)", [("a", 1), ("a", 2)])
    with file.reading() as connection:
        assert connection.execute("SELECT * FROM dues").fetchall() == []
    file.close()


def test_the_read_only_connection_cannot_write(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "jobs.db")
    with pytest.raises(StorageError, match="readonly"), file.reading() as connection:
        connection.execute("INSERT INTO dues VALUES ('a', 1)")
    file.close()


def test_readers_wait_for_no_writer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", is_alive)
    other = SqliteFile(tmp_path / "jobs.db")
    with other.transaction() as connection:
        connection.execute("INSERT INTO dues VALUES ('a', 1)")
        assert store.find() == []
    store.save(job("a"))
    other.close()
    store.close()


def test_only_what_must_outlive_a_power_cut_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(shared_sync, "_sync", asked.append)
    file = SqliteFile(tmp_path / "jobs.db")
    waits = []
    for durable, row in [(True, ("a", 1)), (False, ("b", 1)), (True, ("b", 1)), (True, ("c", 1))]:
        with file.transaction(durable=durable) as connection:
            connection.execute("INSERT OR IGNORE INTO dues VALUES (?, ?)", row)
        waits.append(len(asked))
    assert waits == [1, 1, 1, 2]
    file.close()


def test_a_change_is_confirmed_only_after_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And once the disk has lost something, nothing is trusted to it any more."""
    file = SqliteFile(tmp_path / "jobs.db")
    ledger = SqliteLedger(file)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    with monkeypatch.context() as patch:
        patch.setattr(shared_sync, "_sync", fail)
        with pytest.raises(StorageError, match="the disk is broken"):
            ledger.advance("a", 1)
    with pytest.raises(StorageError, match="the disk is broken"):
        ledger.advance("a", 2)
    file.close()


@pytest.mark.parametrize("key", ["a key", None])
def test_a_repeated_submission_is_confirmed_only_after_the_first_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    records, asked = open_sqlite(tmp_path / "jobs.db", is_alive), list[int]()
    monkeypatch.setattr(shared_sync, "_sync", asked.append)
    records.queue.submit(submission("a"), key=key)
    records.queue.submit(submission("b" if key else "a"), key=key)
    records.close()
    assert len(asked) == 2, "the first may still be on its way"


def test_callers_that_wait_for_the_disk_together_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Yet an answer counts only for what was written before its question."""
    (tmp_path / "file").touch()
    sync = SharedSync(tmp_path / "file")
    written, on_disk, questions = [0], [0], [0]

    def slow(_: int) -> None:
        questions[0] += 1
        before = written[0]
        time.sleep(0.01)
        on_disk[0] = before

    monkeypatch.setattr(shared_sync, "_sync", slow)
    lock, too_early = threading.Lock(), []

    def write() -> None:
        for _ in range(5):
            with lock:
                written[0] += 1
                mine = written[0]
            sync.wait()
            if on_disk[0] < mine:
                too_early.append(mine)

    threads = [threading.Thread(target=write) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sync.close()
    assert too_early == []
    assert questions[0] < 30


def test_a_store_may_be_closed_twice_and_then_reports_that_it_is_closed(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "jobs.db")
    file.close()
    file.close()
    with pytest.raises(StorageError, match="closed"):
        SqliteLedger(file).advance("a", 1)
