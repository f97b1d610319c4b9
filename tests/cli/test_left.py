"""What the command line reports about files that it leaves unchanged, and the commands that it suggests."""

import shlex
from pathlib import Path

import pytest

from tests.builders.console import Run
from tidyberg.testing import Warehouse


@pytest.fixture
def few(warehouse: Warehouse) -> str:
    warehouse.append_files(warehouse.create_table("analytics.few"), 4, 10)
    return "analytics.few"


def test_four_small_files_are_not_called_tidy(run: Run, few: str) -> None:
    ran = run("compact", few)
    assert ran.status == 0
    assert "analytics.few: 4 files wait, nothing is rewritten (health " in ran.out
    assert "4 files to merge, fewer than min_input_files (5)" in ran.out
    assert "it is tidy" not in ran.out
    assert run("compact", few, "--detailed-exitcode").status == 3
    assert "waiting: 4 files" in run("history").out


def test_command_that_rewrites_them_now_works_as_printed(run: Run, few: str, config: Path) -> None:
    flags = (
        "--where",
        "id >= 0",
        "-s",
        "small_files",
        "--max-files",
        "100",
        "--verify",
        "full",
        "--config",
        str(config),
    )
    printed = run("compact", few, *flags).out.replace("\n", " ")
    command = shlex.split(printed.split("to rewrite it now: ")[1])
    assert command[:3] == ["tidyberg", "compact", few]
    assert "--force" in command
    assert all(flag in command for flag in ("--where", "id >= 0", "--strategy", "small_files", "--verify", "full"))
    taken = run(*command[1:])
    assert "4 files replaced" in taken.out
    assert "it is tidy" in run("compact", few).out


def test_a_sort_that_never_fits_into_max_files_is_not_promised_to_the_next_job(run: Run, few: str) -> None:
    flags = ("--sort-order", "id desc", "--force", "--max-files", "3")
    printed = run("compact", few, *flags).out.replace("\n", " ")
    assert "leaves all 4 files for another time; taken by a job with a higher max_files" in printed
    command = shlex.split(printed.split("to rewrite it now: ")[1])
    assert "--max-files" not in command
    assert "4 files replaced" in run(*command[1:]).out


def test_json_has_the_outcome_and_the_command(run: Run, few: str) -> None:
    document = run("compact", few, "--json").json
    assert (document["compacted"], document["outcome"]) == (False, "waiting")
    (left,) = document["left"]
    assert (left["code"], left["files"], left["disposition"]) == ("too-few-files", 4, "waiting")
    assert left["take_now"] == "tidyberg compact analytics.few --force"
    assert document["job"]["outcome"] == "waiting"
    assert document["job"]["notes"]


def test_plan_prints_the_whole_next_command(run: Run, config: Path) -> None:
    flags = ("--where", "id >= 0", "--strategy", "full", "--parquet", "compression-codec=zstd", "--config", str(config))
    printed = run("plan", "analytics.events", *flags, "--engine", "inline").out.replace("\n", " ")
    command = shlex.split(printed.split("next: ")[1])
    assert command == ["tidyberg", "compact", "analytics.events", "--strategy", "full", "--where", "id >= 0",
                       "--parquet", "compression-codec=zstd", "--engine", "inline",
                       "--config", str(config)]  # fmt: skip
    assert "12 files replaced" in run(*command[1:]).out


def test_no_token_is_printed_in_a_command(run: Run) -> None:
    printed = run("plan", "analytics.events", "--connect", "sc://spark:15002/;token=verysecret").out
    assert "next: tidyberg compact" in printed
    assert "verysecret" not in printed


def test_plan_shows_waiting_files(run: Run, few: str) -> None:
    planned = run("plan", few).out
    assert "no rewrite would make this table better" not in planned
    assert "4 files wait, nothing is rewritten" in planned
    assert "to rewrite it now: tidyberg compact analytics.few --force" in planned
