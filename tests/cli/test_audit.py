"""`tidyberg audit`: its output and exit codes."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.builders.console import Run
from tidyberg.execute.kernel.copy import merge
from tidyberg.execute.kernel.deletes.keys_in_parts import KeysInParts
from tidyberg.parquet.fields import GroupField, changed
from tidyberg.parquet.thrift import Struct
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import delete_equal


def test_a_table_without_replace_snapshots_has_nothing_to_audit(run: Run) -> None:
    ran = run("audit", "analytics.events")
    assert ran.status == 0
    assert "no replace snapshot in its history" in ran.out


def test_intact_compaction_is_reported_as_intact(run: Run) -> None:
    assert run("compact", "analytics.events").status == 0
    ran = run("audit", "analytics.events")
    assert ran.status == 0, ran.err
    assert "1 replace snapshot: 1 intact" in ran.out
    assert "intact: the same 600 rows · 12 → 1 file · receipt matches" in ran.out


def test_the_settings_limit_the_memory_of_deleted_keys(
    run: Run, warehouse: Warehouse, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.catalog.load_table("analytics.events")
    delete_equal(table, warehouse.live_files(table)[0].path, {"id": [1, 2]})
    assert run("compact", "analytics.events", "--strategy", "full").status == 0
    limits: list[int] = []
    positions = KeysInParts.positions

    def noted(self: KeysInParts, path: str) -> Any:
        limits.append(self.memory_bytes)
        return positions(self, path)

    monkeypatch.setattr(KeysInParts, "positions", noted)
    assert "intact" in run("audit", "analytics.events").out
    assert limits == []
    config.write_text(config.read_text() + "compaction: {join_delete_size: 1B}\n")
    assert "intact" in run("audit", "analytics.events").out
    assert set(limits) == {1}


def test_damage_exits_with_6_and_names_the_rows(run: Run, warehouse: Warehouse) -> None:
    assert run("compact", "analytics.events").status == 0
    table = warehouse.catalog.load_table("analytics.events")
    (output,) = (local_path(file.path) for file in warehouse.live_files(table))
    rows = pq.read_table(output, partitioning=None)
    # This loses the first row and duplicates the second.
    pq.write_table(rows.slice(1).take([0, *range(rows.num_rows - 1)]), output)
    ran = run("audit", "analytics.events")
    assert ran.status == 6
    assert "DAMAGED" in ran.out
    assert "1 row lost" in ran.out
    assert "1 row duplicated" in ran.out
    assert "receipt mismatch" in ran.out
    reported = run("audit", "analytics.events", "--json")
    assert reported.status == 6
    assert reported.json["damaged"] is True
    (audited,) = reported.json["snapshots"]
    assert audited["verdict"] == "damaged"
    assert dict(audited["harms"]) == {"lost": 1, "doubled": 1}


@pytest.mark.unwatched  # the checker would report the file
def test_suggested_command_rewrites_files_that_some_readers_refuse(
    run: Run, warehouse: Warehouse, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(config.read_text() + "limits: {min_target_file_size: 1B}\n")  # the files are tiny
    original = merge._row_group

    def numbered_in_part(*args: Any) -> Struct:
        group = original(*args)
        return changed(group, {GroupField.ORDINAL: None}) if group[GroupField.ORDINAL][1] % 2 else group

    with monkeypatch.context() as earlier:
        earlier.setattr(merge, "_row_group", numbered_in_part)
        assert run("compact", "analytics.events", "--mode", "copy").status == 0
    ran, reported = run("audit", "analytics.events"), run("audit", "analytics.events", "--json")
    assert (ran.status, reported.status) == (0, 0)
    assert "readers built on arrow-rs (DataFusion) refuse it" in " ".join(ran.out.split())
    (refused,) = reported.json["snapshots"][0]["partly_numbered"]
    _, *command = reported.json["repair"].split()
    assert run(*command).status == 0
    table = warehouse.catalog.load_table("analytics.events")
    assert refused not in {file.path for file in warehouse.live_files(table)}
    assert run("audit", "analytics.events", "--json").json["repair"] == ""


def test_named_snapshot_that_cannot_be_audited_is_a_failure(run: Run, warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("analytics.events")
    gone = warehouse.live_files(table)[0].path
    snapshot = str(run("compact", "analytics.events", "--json").json["snapshot_id"])
    Path(local_path(gone)).unlink()
    assert run("audit", "analytics.events").status == 0
    ran = run("audit", "analytics.events", "--snapshot", snapshot)
    assert ran.status == 5
    assert "not audited" in ran.out


def test_unknown_branch_or_snapshot_is_bad_input(run: Run) -> None:
    assert run("audit", "analytics.events", "--branch", "nowhere").status == 2
    assert run("audit", "analytics.events", "--snapshot", "1").status == 2
