"""The commands that call a service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.api import running_service
from tests.builders.console import Run
from tidyberg.client import Client, Schedule
from tidyberg.settings.load import load_settings


@pytest.fixture
def server(config: Path) -> Iterator[str]:
    with running_service(load_settings(config)) as address:
        yield address


def test_a_job_is_submitted_followed_listed_and_cannot_be_cancelled_any_more(run: Run, server: str) -> None:
    ran = run("submit", "events", "--strategy", "full", "--server", server, "--watch")
    assert ran.status == 0
    assert "succeeded: 12 of 12 files rewritten, 1 now" in ran.out
    assert "execute" in ran.err
    listed = run("jobs", "--server", server, "--table", "analytics.events", "--status", "succeeded")
    assert "12 of 12 files" in listed.out or "committed" in listed.out
    job_id = run("jobs", "--server", server, "--json").json["jobs"][0]["job_id"]
    assert run("cancel", job_id, "--server", server).out.startswith(f"job {job_id} is succeeded")
    assert run("watch", job_id, "--server", server).status == 0


def test_submit_prints_the_next_command(run: Run, server: str) -> None:
    ran = run("submit", "events", "--server", server, "--key", "once", "--json")
    again = run("submit", "events", "--server", server, "--key", "once")
    assert f"tidyberg watch {ran.json['job_id']}" in again.out


def test_a_job_that_fails_fails_the_command(run: Run, server: str) -> None:
    ran = run("submit", "events", "--branch", "nowhere", "--server", server, "--watch")
    assert ran.status == 1
    assert "nowhere" in ran.out


def test_errors_of_the_service_are_shown_like_local_ones(run: Run, server: str) -> None:
    ran = run("submit", "nothing", "--server", server)
    assert ran.status == 2
    assert "nothing" in ran.err


def test_unreachable_service_is_named(run: Run) -> None:
    ran = run("jobs", "--server", "http://127.0.0.1:1")
    assert ran.status == 5
    assert "http://127.0.0.1:1" in ran.err
    assert "tidyberg serve" in ran.err


def test_a_token_is_read_from_a_file(run: Run, server: str, tmp_path: Path) -> None:
    missing = run("jobs", "--server", server, "--token-file", str(tmp_path / "none"))
    assert missing.status == 2
    token = tmp_path / "token"
    token.write_text("tdb_some\n")
    assert run("jobs", "--server", server, "--token-file", str(token)).status == 0


def test_schedules_are_listed_with_their_times(run: Run, server: str) -> None:
    assert "there are no schedules" in run("schedules", "--server", server).out
    with Client(server) as client:
        client.save_schedule(Schedule(schedule_id="nightly", cron="0 2 * * *", table="a.b", timezone="Asia/Kathmandu",
                                      strategy="full", options={"max_files": 9}))  # fmt: skip
        client.save_schedule(Schedule(schedule_id="off", cron="@hourly", table="a.*", enabled=False))
    out = run("schedules", "--server", server).out
    assert "nightly" in out
    assert "02:00" in out
    assert "paused" in out
    assert "strategy=full, max_files=9" in " ".join(out.split())
    nightly, off = run("schedules", "--server", server, "--json").json["schedules"]
    assert nightly["next_due"][11:16] == "20:15"
    assert nightly["last_due"] is None
    assert off["next_due"] is None


def test_a_table_is_paused_shown_and_resumed(run: Run, server: str) -> None:
    ran = run("pause", "events", "--reason", "migration", "--hours", "2", "--server", server)
    assert ran.status == 0
    assert "analytics.events is paused until 20" in ran.out
    shown = run("paused", "--server", server)
    assert "analytics.events" in shown.out
    assert "migration" in shown.out
    refused = run("submit", "analytics.events", "--server", server)
    assert refused.status == 4
    assert "paused by local: migration" in refused.err
    assert run("resume", "events", "--server", server).out == "events takes jobs again\n"
    assert run("paused", "--server", server, "--json").json == {"pauses": []}
    assert run("resume", "events", "--server", server).status == 2
