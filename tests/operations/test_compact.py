"""COMPACT takes the eight fields of the contract and answers with its statistics."""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.table_operations import Tables, open_tables
from tidyberg.control.control import Control

STATISTICS = ["files_before", "files_after", "files_compacted", "files_removed", "bytes_before", "bytes_after",
              "bytes_saved", "snapshots_expired", "compaction_time_ms", "small_files_remaining"]  # fmt: skip
REQUEST: dict[str, Any] = {
    "force": False,
    "target_file_size_mb": None,
    "max_files": None,
    "partition_filter": None,
    "expire_snapshots": True,
    "snapshot_retention_hours": 168,
}


def fill(tables: Tables, writes: int) -> None:
    for number in range(writes):
        tables.call("WRITE", records=[{"name": f"User-{number}", "age": number}])


def test_the_request_of_the_contract_merges_small_files(tables: Tables) -> None:
    fill(tables.create(), 5)
    before = tables.rows("SELECT * FROM users ORDER BY age")
    answer = tables.call("COMPACT", **REQUEST)
    stats = answer["stats"]
    assert answer["compacted"] is True
    assert list(stats) == STATISTICS
    assert [stats[name] for name in STATISTICS[:4]] == [5, 1, 5, 5]
    assert stats["bytes_saved"] == stats["bytes_before"] - stats["bytes_after"]
    assert stats["snapshots_expired"] == 0  # all of them are younger than a week
    assert stats["small_files_remaining"] == 1
    assert tables.rows("SELECT * FROM users ORDER BY age") == before


def test_too_few_small_files_are_left_alone_unless_forced(tables: Tables) -> None:
    fill(tables.create(), 2)
    answer = tables.call("COMPACT")
    assert (answer["compacted"], answer["stats"]["files_after"]) == (False, 2)
    assert answer["message"]
    assert tables.call("COMPACT", force=True)["stats"]["files_after"] == 1


def test_no_more_files_than_asked_are_taken(tables: Tables) -> None:
    fill(tables.create(), 6)
    stats = tables.call("COMPACT", max_files=4)["stats"]
    assert (stats["files_compacted"], stats["files_after"]) == (4, 3)


def test_the_settings_say_how_many_files_are_taken(tmp_path: Path) -> None:
    with open_tables(tmp_path, iceberg={"compaction": {"max_files_per_compaction": 3}}) as tables:
        fill(tables.create(), 5)
        assert tables.call("COMPACT")["stats"]["files_compacted"] == 3


@pytest.mark.parametrize("chosen", ["age = 1", {"age": 1}])
def test_only_chosen_partitions_are_compacted(tables: Tables, chosen: Any) -> None:
    fields = {"name": {"type": "string"}, "age": {"type": "integer"}}
    tables.create({"fields": fields}, partition_by=["age"])
    for _ in range(3):
        tables.call("WRITE", records=[{"name": "a", "age": 1}, {"name": "b", "age": 2}])
    stats = tables.call("COMPACT", partition_filter=chosen)["stats"]
    assert (stats["files_before"], stats["files_compacted"], stats["files_after"]) == (6, 3, 4)


@pytest.mark.parametrize("wrong", ["age =", "nope = 1", "1; DROP TABLE users", {"no'pe\"": "x"}])
def test_a_wrong_filter_is_refused(tables: Tables, wrong: Any) -> None:
    fill(tables.create(), 1)
    tables.refused("COMPACT", partition_filter=wrong)


def test_old_snapshots_expire_if_asked(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tables.create(), 4)
    later = tables.operations.control.now_ms() + 2 * 3_600_000
    monkeypatch.setattr(Control, "now_ms", staticmethod(lambda: later), raising=False)
    tables.operations.control.now_ms = lambda: later
    stats = tables.call("COMPACT", expire_snapshots=True, snapshot_retention_hours=1)["stats"]
    assert stats["snapshots_expired"] == 4
    assert tables.rows("SELECT count(*) AS n FROM users") == [{"n": 4}]


def test_a_target_size_is_checked(tables: Tables) -> None:
    fill(tables.create(), 3)
    assert "below the minimum" in tables.refused("COMPACT", target_file_size_mb=0.0001)
