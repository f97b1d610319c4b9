"""The GitHub Action: its steps run in bash, as a runner would run them, against a web server that plays GitHub."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.served_process import environment
from tests.integrations.github_api import serving_comments
from tests.servers.go_binary import go_binary
from tidyberg._version import __version__
from tidyberg.testing import Warehouse

ACTIONLINT = ("actionlint", "github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12")
ACTION = Path(__file__).parents[2] / "integrations" / "github-action"
TOKEN = "token-of-the-workflow"
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
slow_parts = pytest.mark.skipif("TEST_ACTION" not in os.environ, reason="make test-integrations runs it")


def definition() -> dict[str, Any]:
    return dict(yaml.safe_load((ACTION / "action.yml").read_text()))


def step(name: str) -> dict[str, Any]:
    (found,) = [each for each in definition()["runs"]["steps"] if each["id"] == name]
    return dict(found)


@dataclass(frozen=True)
class Finished:
    status: int
    log: str
    summary: str
    outputs: dict[str, str]


class Runner:
    """A job of a workflow: the directory of the runner, the event, and the lake."""

    def __init__(self, directory: Path, lake: dict[str, str], api: str) -> None:
        self.directory = directory
        self.temporary = directory / "temporary"
        self.temporary.mkdir()
        self.event: dict[str, Any] = {"pull_request": {"number": 7}}
        self.environ = {
            **lake,
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_API_URL": api,
            "GITHUB_REPOSITORY": "acme/lake",
            "GITHUB_EVENT_PATH": str(directory / "event.json"),
            "GITHUB_STEP_SUMMARY": str(directory / "summary.md"),
            "GITHUB_OUTPUT": str(directory / "outputs"),
        }

    def installed(self) -> None:
        """Does what the step `install` does, with this environment instead of a new one."""
        programs = self.temporary / "tidyberg" / "bin"
        programs.mkdir(parents=True)
        for name in ("python", "tidyberg"):
            (programs / name).write_text(f'#!/bin/sh\nexec "{Path(sys.executable).with_name(name)}" "$@"\n')
            (programs / name).chmod(0o755)

    def run(self, name: str, **inputs: str) -> Finished:
        values = {f"inputs.{key}": str(each.get("default", "")) for key, each in definition()["inputs"].items()}
        values |= {f"inputs.{key}": value for key, value in inputs.items()} | {"github.token": TOKEN}
        given = {key: EXPRESSION.sub(lambda m: values[m[1]], text) for key, text in step(name).get("env", {}).items()}
        files = [self.directory / "summary.md", self.directory / "outputs"]
        for path in files:
            path.write_text("")
        (self.directory / "event.json").write_text(json.dumps(self.event))
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step(name)["run"]],
            env={**self.environ, **given}, cwd=self.directory, capture_output=True, text=True,
        )  # fmt: skip
        summary, outputs = (path.read_text() for path in files)
        pairs = dict(line.split("=", 1) for line in outputs.splitlines())
        return Finished(ran.returncode, ran.stdout + ran.stderr, summary, pairs)


@pytest.fixture
def lake(tmp_path: Path) -> dict[str, str]:
    with Warehouse(tmp_path / "lake", name="default") as warehouse:
        warehouse.append_files(warehouse.create_table("public.events"), 12, 50)
        warehouse.append_files(warehouse.create_table("public.tidy"), 1, 10)
        return environment(warehouse, tmp_path, TIDYBERG_ENGINE="inline")


@pytest.fixture
def runner(tmp_path: Path, lake: dict[str, str]) -> Runner:
    made = Runner(tmp_path, lake, "http://127.0.0.1:1")
    made.installed()
    return made


def table_rows(markdown: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines() if line[:1] == "|"]


def test_a_plan_is_commented_once_and_then_updated(runner: Runner) -> None:
    with serving_comments(TOKEN) as (url, api):
        runner.environ["GITHUB_API_URL"] = url
        for number in range(100):  # one page of comments of others
            api.add("somebody", f"comment {number}")
        first = runner.run("plan", tables="public.events\npublic.tidy")
        assert first.status == 0, first.log
        (body,) = api.by_the_bot()
        api.comments[0]["body"] = body  # of somebody, and found first
        second = runner.run("plan", tables="public.tidy")
        assert second.status == 0, second.log
        (updated,) = api.by_the_bot()

    assert first.outputs == second.outputs == {"comment": "https://github.test/comment/101"}
    assert [call.split()[0] for call in api.calls] == ["GET", "GET", "POST", "GET", "GET", "PATCH"]
    rows = {row[0]: row[1:] for row in table_rows(body) if row[0] != "<code>(unpartitioned)</code>"}
    assert rows["<code>public.events</code>"] == ["75/100", "12 → 1 files", "156 KB", "$0.0001", "after 11 scans"]
    assert rows["<code>public.tidy</code>"][1] == "nothing to do"
    reasons = [row[1:4] for row in table_rows(body) if row[0] == "<code>(unpartitioned)</code>"]
    assert ["12", "rewrite", "small files&#58; 12 files, average 13.0 KB"] in reasons
    assert body.strip() in first.summary
    assert "public.events" not in updated


def test_a_token_that_may_only_read_leaves_the_plan_in_the_summary(runner: Runner) -> None:
    with serving_comments(TOKEN, read_only=True) as (url, api):
        runner.environ["GITHUB_API_URL"] = url
        done = runner.run("plan", tables="public.events")
    assert done.status == 0, done.log
    assert api.comments == []
    assert "::notice::The token of this workflow may not write comments" in done.log
    assert "12 → 1 files" in done.summary
    assert "The plan is in the job summary only." in done.summary
    assert done.outputs == {}


def test_inputs_are_data_and_a_table_that_cannot_be_planned_fails_the_step(runner: Runner) -> None:
    """An input runs no command, is no flag of tidyberg, and changes no Markdown."""
    tables = "$(touch${IFS}hacked) --all-tables @team|`x`<img> public.tidy"
    with serving_comments(TOKEN) as (url, api):
        runner.environ["GITHUB_API_URL"] = url
        done = runner.run("plan", tables=tables, title="# @team <b>")
    assert done.status == 2
    assert not (runner.directory / "hacked").exists()
    (body,) = api.by_the_bot()
    rows = [row for row in table_rows(body) if len(row) == 6]
    assert [row[2].partition(":")[0] for row in rows[2:]] == ["**failed**", "**failed**", "**failed**", "nothing to do"]
    assert "**failed**: There is no table" in body
    assert not re.search(r"@|<img>|<b>|`x`|public.events", body)


def test_another_title_has_another_marker() -> None:
    made = subprocess.run(
        [sys.executable, "-c", "from plan_markdown import marker; print(marker('a'), marker('a'), marker('b'))"],
        cwd=ACTION, capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, again, other = re.findall("<!-- .*? -->", made.stdout)
    assert first == again != other


def test_a_comment_stays_below_the_limit_of_github() -> None:
    """Reasons are left out first, and then the tables."""
    script = """
from plan_markdown import MOST_CHARACTERS, comment
verdict = {"kind": "skip", "reason": "r" * 100}
partition = {"partition_path": "", "files": 1, "score": 0.0, "verdict": verdict}
plan = {"table": {"namespace": ["n" * 50], "name": "t"}, "health": 1, "estimate": {}, "groups": [], "deletes": [],
        "partitions": [partition] * 100}
for tables in (1, 100, 1000):
    text = comment("a title", [plan] * tables)
    assert len(text) <= MOST_CHARACTERS
    print(text.startswith("<!-- tidyberg-plan"), text.count("nothing to do"), "left out" in text)
"""
    made = subprocess.run([sys.executable, "-c", script], cwd=ACTION, capture_output=True, text=True, check=True)
    assert made.stdout.splitlines() == ["True 1 False", "True 100 True", "True 0 True"]


def test_no_expression_is_part_of_a_script() -> None:
    for each in definition()["runs"]["steps"]:
        assert "${{" not in each["run"]
    assert "secrets." not in (ACTION / "action.yml").read_text()


def test_a_push_has_a_summary_only_and_the_token_does_not_reach_tidyberg(runner: Runner) -> None:
    assert step("plan")["env"]["GITHUB_TOKEN"] == "${{ github.token }}"
    seen = runner.temporary / "seen"
    program = runner.temporary / "tidyberg" / "bin" / "tidyberg"
    program.write_text(program.read_text().replace("exec", f"env > '{seen}'\nexec"))
    runner.event = {"ref": "refs/heads/main"}
    done = runner.run("plan", tables="public.tidy")
    assert done.status == 0, done.log
    assert "This run belongs to no pull request" in done.summary
    assert "CATALOG_URI=" in seen.read_text()
    assert TOKEN not in seen.read_text()


@slow_parts
def test_actionlint_accepts_the_example(tmp_path: Path) -> None:
    """It also knows the inputs of the action, if the workflow names it by its path."""
    (tmp_path / ".git").mkdir()
    shutil.copytree(ACTION, tmp_path / "integrations" / "github-action")
    workflow = tmp_path / ".github" / "workflows" / "tidyberg.yml"
    workflow.parent.mkdir(parents=True)
    example = (ACTION / "example.yml").read_text()
    local = re.sub(r"uses: \S+/integrations/github-action@\S+", "uses: ./integrations/github-action", example)
    assert local != example
    workflow.write_text(local)
    checked = subprocess.run([go_binary(*ACTIONLINT)], cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    workflow.write_text(local.replace("tables: |", "table: |"))
    assert subprocess.run([go_binary(*ACTIONLINT)], cwd=tmp_path, capture_output=True).returncode == 1


@slow_parts
def test_the_action_installs_tidyberg_of_its_own_checkout(runner: Runner) -> None:
    shutil.rmtree(runner.temporary / "tidyberg")
    # Without dependencies, because Spark alone has 450 MB. pip would leave out those of the build, too.
    built_by = runner.directory / "hatchling"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(built_by), "hatchling"], check=True)
    runner.environ |= {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": str(built_by)}
    done = runner.run("install")
    assert done.status == 0, done.log
    listed = [str(runner.temporary / "tidyberg" / "bin" / "python"), "-m", "pip", "list", "--format=json"]
    found = json.loads(subprocess.run(listed, capture_output=True, check=True).stdout)
    assert {"name": "tidyberg", "version": __version__} in [
        {key: each[key] for key in ("name", "version")} for each in found
    ]
