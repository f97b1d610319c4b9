"""The documentation matches the program."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from tidyberg.cli.iceberg_compact import app as iceberg_compact_app
from tidyberg.cli.main import app
from tidyberg.settings.document import read_document
from tidyberg.settings.sections import OPTION_ALIASES, Options
from tidyberg.settings.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")))


def flags(command: object) -> Iterator[str]:
    for parameter in getattr(command, "params", ()):
        yield from (name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--"))
    for below in getattr(command, "commands", {}).values():
        yield from flags(below)


@pytest.mark.parametrize("program", [app, iceberg_compact_app])
def test_every_flag_is_documented(program: typer.Typer) -> None:
    text = (ROOT / "docs/cli.md").read_text()
    known = set(flags(typer.main.get_command(program))) - {"--help", "--version", "--show-completion"}
    assert {flag for flag in known if not re.search(rf"{flag}\b", text)} == set()


def test_every_setting_and_option_is_documented() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    names = {*Settings.model_fields, *Options.model_fields, *OPTION_ALIASES}
    undocumented = {name for name in names if not re.search(rf"\b{name}\b", text)}
    assert undocumented <= {"target_file_size_bytes", "small_file_threshold_bytes"}


def test_the_settings_in_the_documents_are_valid() -> None:
    files_of_others = ("# packages.yml", "# dbt_project.yml", "# profiles.yml", "# .github/workflows/")
    parts = ("apiVersion:", "command:", "livenessProbe:", "# yaml-language-server", "Resources:")
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        if not block.startswith((*parts, *files_of_others))
    ]
    assert len(blocks) >= 7
    named = {name for block in blocks for name in re.findall(r"\$\{(\w+)\}", block)}
    special = {"REDIS_URL": "redis://redis:6379/0", "API_KEY_HASH": f"sha256:{'0' * 64}"}
    environ = {**dict.fromkeys(named, "http://host"), **special}
    for block in blocks:
        Settings.model_validate(read_document(block, "example", environ).data)


def test_links_between_documents_resolve() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text()):
            if not target.startswith("http"):
                assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_the_example_runs() -> None:
    command = [sys.executable, str(ROOT / "examples/plan_and_compact.py"), "inline"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == "the whole table: rewrite 20 -> 1"
    assert "  1 of 1 groups done" in lines
    assert lines[-2:] == ["committed: 20 files before, 1 after", "tidy"]


def test_every_alert_links_to_its_runbook() -> None:
    chapters = {
        line.removeprefix("### ").strip().lower().replace(" ", "-")
        for line in (ROOT / "docs/operations.md").read_text().splitlines()
        if line.startswith("### ")
    }
    named = re.findall(r"runbook: docs/operations\.md#(\S+)", (ROOT / "dashboards/alerts.yaml").read_text())
    assert named
    assert set(named) == chapters
