"""Compaction through Iceberg's own REST catalog server."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from tests.builders.statistics_files import THETA, add_statistics
from tests.rest.lab import FULL, SCHEMA, RestLab
from tests.servers.server import free_port
from tidyberg.errors import CatalogUnreachable, UnknownTable
from tidyberg.model.audit import Receipt, Verdict
from tidyberg.model.job import JobStatus, Stage
from tidyberg.model.options import VerifyMode
from tidyberg.model.report import Event, EventSink, StageStarted
from tidyberg.testing import sample_rows

pytestmark = pytest.mark.slow

FULL_AUDIT = replace(FULL, branch="audit")
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_compaction_keeps_the_rows_and_leaves_nothing_behind(lab: RestLab, format_version: int) -> None:
    table = lab.untidy_table(files=9, format_version=format_version)
    before = lab.rows(table)
    with lab.control() as control:
        result = control.compact(lab.ref, FULL, verify=VerifyMode.FULL)
        assert result.outcome == "committed"
        assert (result.stats.files_before, result.stats.files_after) == (9, 1)
        assert table.refresh().metadata.current_snapshot_id == result.snapshot_id
        assert table.metadata.format_version == format_version
        assert lab.rows(table) == before
        assert lab.operations(table)["replace"] == 1
        assert not lab.leftovers(table)

        assert control.compact(lab.ref, FULL).outcome == "tidy"
        assert [job.status for job in control.history(lab.ref)] == [JobStatus.SUCCEEDED] * 2
    assert lab.operations(table)["replace"] == 1
    assert not lab.leftovers(table)


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_every_partition_becomes_one_file_in_its_place(lab: RestLab, format_version: int) -> None:
    table = lab.create_table(str(lab.ref), SCHEMA, BY_REGION, format_version=format_version)
    for number, region in enumerate(("eu", "us", None)):
        lab.append_files(table, 4, 20, values={"region": region}, seed=10 * number)
    before = lab.rows(table)
    with lab.control() as control:
        result = control.compact(lab.ref, FULL)
    assert (result.stats.files_before, result.stats.files_after, result.groups_committed) == (12, 3, 3)
    assert lab.rows(table) == before
    live = table.refresh().inspect.files().to_pylist()
    assert sorted(str(file["partition"]["region"]) for file in live) == ["None", "eu", "us"]
    assert table.scan("region = 'eu'").to_arrow().num_rows == 80
    assert not lab.leftovers(table)


def test_retention_settings_of_the_branch_are_kept(lab: RestLab) -> None:
    table = lab.untidy_table()
    head = table.refresh().metadata.current_snapshot_id
    assert head is not None
    lab.catalog.commit_table(
        table,
        (),
        (
            SetSnapshotRefUpdate(
                ref_name="main",
                type=SnapshotRefType.BRANCH,
                snapshot_id=head,
                max_ref_age_ms=None,
                max_snapshot_age_ms=86_400_000,
                min_snapshots_to_keep=7,
            ),
        ),
    )
    with lab.control() as control:
        result = control.compact(lab.ref, FULL)
    ref = table.refresh().metadata.refs["main"]
    assert ref.snapshot_id == result.snapshot_id
    assert (ref.max_snapshot_age_ms, ref.min_snapshots_to_keep) == (86_400_000, 7)


def test_statistics_of_the_parent_are_kept_and_an_audit_finds_the_table_intact(lab: RestLab) -> None:
    table = lab.untidy_table()
    before = add_statistics(table, THETA)
    with lab.control() as control:
        result = control.compact(lab.ref, FULL)
        (audited,) = control.audit(lab.ref).snapshots
    carried = {file.snapshot_id: file for file in table.refresh().metadata.statistics}
    assert result.snapshot_id is not None
    assert carried[result.snapshot_id] == before.model_copy(update={"snapshot_id": result.snapshot_id})
    assert (audited.verdict, audited.receipt) == (Verdict.INTACT, Receipt.HOLDS)


def test_another_branch_is_compacted_and_main_stays(lab: RestLab) -> None:
    table = lab.untidy_table()
    main = table.refresh().metadata.current_snapshot_id
    assert main is not None
    with table.manage_snapshots() as manage:
        manage.create_branch(main, "audit")
    lab.append_files(table, 3, 20, branch="audit", seed=50)
    before = lab.rows(table, branch="audit")
    with lab.control() as control:
        result = control.compact(lab.ref, FULL_AUDIT)
    assert result.stats.files_after == 1
    assert table.refresh().metadata.refs["audit"].snapshot_id == result.snapshot_id
    assert table.metadata.current_snapshot_id == main
    assert lab.rows(table, branch="audit") == before
    assert not lab.leftovers(table)


def test_writers_can_continue_after_a_compaction(lab: RestLab) -> None:
    table = lab.untidy_table()
    with lab.control() as control:
        control.compact(lab.ref, FULL)
    before = lab.rows(table)
    table.refresh().append(sample_rows(5, 99, SCHEMA))
    table.refresh().delete("id = 0")
    assert len(lab.rows(table)) == len(before) + 4


def when_committing(act: Callable[[], object]) -> EventSink:
    """Lets something happen between the rewrite and its first commit."""
    acts = [act]

    def sink(event: Event) -> None:
        if acts and isinstance(event, StageStarted) and event.stage is Stage.COMMIT:
            acts.pop()()

    return sink


def test_a_column_added_while_the_job_ran_is_kept(lab: RestLab) -> None:
    table = lab.untidy_table()

    def add_column() -> None:
        with table.refresh().update_schema() as update:
            update.add_column("note", StringType())
        table.append(sample_rows(5, 99, table.refresh().schema(), {"note": "new"}))

    with lab.control() as control:
        result = control.compact(lab.ref, FULL, on_event=when_committing(add_column))
    assert result.outcome == "committed"
    assert table.refresh().schema().column_names == ["id", "region", "name", "note"]
    notes = table.scan().to_arrow()["note"].to_pylist()
    assert (notes.count("new"), notes.count(None)) == (5, 120)
    assert not lab.leftovers(table)


def test_rows_deleted_while_the_job_ran_stay_deleted(lab: RestLab) -> None:
    table = lab.untidy_table()
    with lab.control() as control:
        delete = when_committing(lambda: table.refresh().delete("id = 0"))
        assert control.compact(lab.ref, FULL, on_event=delete).outcome == "committed"  # planned again
    assert lab.operations(table)["replace"] == 1
    assert len(lab.rows(table)) == 119
    assert not lab.leftovers(table)


def test_writers_that_commit_at_the_same_time_lose_nothing(lab: RestLab) -> None:
    table = lab.untidy_table()
    before = lab.rows(table)
    failures: list[Exception] = []

    def write() -> None:
        with closing(RestCatalog("writer", uri=lab.server.uri)) as catalog:
            for number in range(10):
                for _ in range(50):
                    try:
                        catalog.load_table(lab.ref.identifier).append(sample_rows(5, 100 + number, SCHEMA))
                        break
                    except CommitFailedException as error:
                        lost = error
                else:
                    failures.append(lost)

    writer = threading.Thread(target=write)
    with lab.control(retries=50) as control:
        result = control.compact(lab.ref, FULL, on_event=when_committing(writer.start))
    writer.join()
    assert not failures
    assert result.outcome == "committed"
    assert lab.operations(table) == {"append": 12, "replace": 1}
    rows = lab.rows(table)
    assert len(rows) == len(before) + 50
    assert set(before) <= set(rows)
    assert not lab.missing(table)
    assert not {path for path in lab.leftovers(table) if result.job.job_id in path}


def test_an_unknown_table_is_reported_with_similar_names(lab: RestLab) -> None:
    lab.untidy_table()
    with lab.control() as control, pytest.raises(UnknownTable, match="events"):
        control.compact(replace(lab.ref, name="evnts"), FULL)


def test_an_unreachable_catalog_is_reported_in_time(lab: RestLab) -> None:
    started = time.monotonic()
    with (
        lab.control(f"http://127.0.0.1:{free_port()}", http_timeout_seconds=2.0) as control,
        pytest.raises(CatalogUnreachable, match="cannot be reached"),
    ):
        control.compact(lab.ref, FULL)
    assert time.monotonic() - started < 15
