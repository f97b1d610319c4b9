"""Compaction through Iceberg's own REST catalog server: by the control room and by the commands."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform

from tests.rest.lab import FULL, SCHEMA, RestLab
from tests.servers.rest import RestServer, free_port
from tidyberg.errors import CatalogUnreachable, UnknownTable
from tidyberg.model.job import JobStatus
from tidyberg.model.options import VerifyMode
from tidyberg.testing import sample_rows

pytestmark = pytest.mark.slow

FULL_AUDIT = replace(FULL, branch="audit")
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


@pytest.mark.parametrize("format_version", [1, 2])
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

        assert control.compact(lab.ref, FULL).outcome == "nothing"
        assert [job.status for job in control.history(lab.ref)] == [JobStatus.SUCCEEDED] * 2
    assert lab.operations(table)["replace"] == 1
    assert not lab.leftovers(table)


@pytest.mark.parametrize("format_version", [1, 2])
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


def test_writers_can_go_on_after_a_compaction(lab: RestLab) -> None:
    table = lab.untidy_table()
    with lab.control() as control:
        control.compact(lab.ref, FULL)
    before = lab.rows(table)
    table.refresh().append(sample_rows(5, 99, SCHEMA))
    table.refresh().delete("id = 0")
    assert len(lab.rows(table)) == len(before) + 4


def test_an_unknown_table_is_told_with_names_that_are_near(lab: RestLab) -> None:
    lab.untidy_table()
    with lab.control() as control, pytest.raises(UnknownTable, match="events"):
        control.compact(replace(lab.ref, name="evnts"), FULL)


def test_a_catalog_that_is_not_there_is_told_in_time(lab: RestLab) -> None:
    started = time.monotonic()
    with (
        lab.control(f"http://127.0.0.1:{free_port()}", http_timeout_seconds=2.0) as control,
        pytest.raises(CatalogUnreachable, match="cannot be reached"),
    ):
        control.compact(lab.ref, FULL)
    assert time.monotonic() - started < 15


class Commands:
    """The installed commands, with an environment that has only what a test gives."""

    def __init__(self, lab: RestLab) -> None:
        self._lab = lab

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        script = Path(sys.executable).parent / words[0]
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG") if name in os.environ}
        home = self._lab.directory / "home"
        home.mkdir(exist_ok=True)
        return subprocess.run(
            [str(script), *words[1:]],
            env={**kept, "HOME": str(home), "TIDYBERG_HOME": str(home / "state"), **environment},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def commands(lab: RestLab) -> Commands:
    return Commands(lab)


def test_iceberg_compact_needs_only_the_catalogs_address_and_a_table(lab: RestLab, commands: Commands) -> None:
    """The contract's CronJob, word for word, on Spark."""
    table = lab.untidy_table(files=9)
    before = lab.rows(table)
    line = (f"--catalog-uri={lab.server.uri}", "--table=events", "--strategy=small-files")

    first = commands.run("iceberg-compact", *line)
    assert first.returncode == 0, first.stderr
    assert lab.rows(table) == before
    assert len(table.refresh().inspect.files()) == 1
    assert lab.operations(table)["replace"] == 1
    assert not lab.leftovers(table)

    second = commands.run("iceberg-compact", *line, "--engine=inline")
    assert second.returncode == 0, second.stderr
    assert lab.operations(table)["replace"] == 1


def test_the_catalogs_address_alone_in_the_environment_is_enough(lab: RestLab, commands: Commands) -> None:
    table = lab.untidy_table(files=9, files_per_commit=9)  # two commits just now would be hot: left for later
    before = lab.rows(table)
    done = commands.run("tidyberg", "compact", str(lab.ref), "--engine", "inline", "--json", CATALOG_URI=lab.server.uri)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "committed"
    assert lab.rows(table) == before
    assert len(table.refresh().inspect.files()) == 1
    assert not lab.leftovers(table)


def test_commands_tell_a_catalog_that_is_not_there_and_end_with_5(commands: Commands) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    started = time.monotonic()
    done = commands.run("iceberg-compact", f"--catalog-uri={address}", "--table=db.events", "--engine=inline")
    assert time.monotonic() - started < 30
    assert done.returncode == 5
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_commands_tell_a_table_that_is_not_there_and_end_with_2(lab: RestLab, commands: Commands) -> None:
    lab.untidy_table()
    address = {"CATALOG_URI": lab.server.uri}
    for words in (("compact", f"{lab.namespace}.evnts"), ("compact", "nowhere.events"), ("health", "evnts")):
        done = commands.run("tidyberg", *words, **address)
        assert done.returncode == 2, (words, done.stderr)
        assert "There is no" in done.stderr
        assert "Traceback" not in done.stderr


def test_an_address_that_is_no_catalog_ends_with_5(rest_server: RestServer, commands: Commands) -> None:
    """Right port, wrong path: the answer is not a catalog's."""
    done = commands.run("tidyberg", "tables", CATALOG_URI=f"{rest_server.uri}/nowhere")
    assert done.returncode in (2, 5), done.stderr
    assert "error:" in done.stderr
    assert "defect" not in done.stderr
