"""The installed commands against Iceberg's own REST catalog server, each in a process of its own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rest.lab import RestLab
from tests.rest.proxy import Fault, FaultProxy
from tests.servers.rest import RestServer
from tests.servers.server import free_port

pytestmark = pytest.mark.slow


class Commands:
    """The installed commands, with an environment that has only what a test gives."""

    def __init__(self, lab: RestLab) -> None:
        self._lab = lab

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        script = Path(sys.executable).parent / words[0]
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG") if name in os.environ}
        home = self._lab.directory / "home"
        home.mkdir(exist_ok=True)
        return subprocess.Popen(
            [str(script), *words[1:]],
            env={**kept, "HOME": str(home), "TIDYBERG_HOME": str(home / "state"), **environment},
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words, **environment) as process:
            try:
                output, errors = process.communicate(timeout=180)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, output, errors)


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


def test_commands_report_an_unreachable_catalog_and_exit_with_5(commands: Commands) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    started = time.monotonic()
    done = commands.run("iceberg-compact", f"--catalog-uri={address}", "--table=db.events", "--engine=inline")
    assert time.monotonic() - started < 30
    assert done.returncode == 5
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_commands_report_an_unknown_table_and_exit_with_2(lab: RestLab, commands: Commands) -> None:
    lab.untidy_table()
    address = {"CATALOG_URI": lab.server.uri}
    for words in (("compact", f"{lab.namespace}.evnts"), ("compact", "nowhere.events"), ("health", "evnts")):
        done = commands.run("tidyberg", *words, **address)
        assert done.returncode == 2, (words, done.stderr)
        assert "There is no" in done.stderr
        assert "Traceback" not in done.stderr


def test_an_address_that_is_not_a_catalog_is_reported_with_exit_code_2(
    rest_server: RestServer, commands: Commands
) -> None:
    """Right port, wrong path: the answer is not a catalog's."""
    done = commands.run("tidyberg", "tables", CATALOG_URI=f"{rest_server.uri}/nowhere")
    assert done.returncode == 2, done.stderr
    assert "refused the request" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_killed_during_its_commit_is_recovered(lab: RestLab, proxy: FaultProxy, commands: Commands) -> None:
    table = lab.untidy_table(files=9, files_per_commit=9)
    before = lab.rows(table)
    proxy.spoil_commits(Fault(forward=True, status=200, until_released=True))
    address = {"CATALOG_URI": proxy.uri}
    with commands.start("tidyberg", "compact", str(lab.ref), "--engine", "inline", **address) as victim:
        proxy.wait_for_commit()
        victim.kill()

    early = commands.run("tidyberg", "recover", **address)
    assert early.returncode == 0, early.stderr
    assert "had not committed" in early.stdout + early.stderr

    proxy.release()
    proxy.wait_until_idle()
    assert proxy.commit_answers == [200, 409], "a fence was put up: the commit came too late"
    assert lab.operations(table)["replace"] == 0
    assert lab.rows(table) == before
    assert not lab.missing(table)
    assert not lab.leftovers(table)
