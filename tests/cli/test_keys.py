"""`tidyberg key new` shows a key once and prints a valid settings entry."""

import json
import shlex
from pathlib import Path

import pytest

from tidyberg.cli.main import app, main
from tidyberg.settings.access import hash_key
from tidyberg.settings.load import load_settings


def test_printed_entry_is_valid_and_contains_only_the_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["key", "new", "--name", "airflow", "--role", "operator", "--tenant", "*", "--expires", "2031-02-03"]
    assert main(app, words) == 0
    printed = capsys.readouterr().out
    key = printed.splitlines()[0]
    entry = printed[printed.index("access:") :]
    assert key.startswith("tdb_")
    assert key not in entry
    path = tmp_path / "tidyberg.yaml"
    path.write_text(entry)
    (kept,) = load_settings(path, environ={}).access.api_keys
    assert (kept.name, kept.role, kept.tenant, kept.hash) == ("airflow", "operator", "*", hash_key(key))
    assert kept.expires is not None
    assert kept.expires.date().isoformat() == "2031-02-03"


def test_json_output_has_the_key_and_the_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(app, ["key", "new", "--name", "a", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["entry"] == {"name": "a", "hash": hash_key(shown["key"]), "role": "viewer"}


def test_documented_command_works(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    commands = [line.removeprefix("$ tidyberg ") for line in page.splitlines() if line.startswith("$ tidyberg ")]
    assert commands
    for command in commands:
        assert main(app, shlex.split(command)) == 0
        assert capsys.readouterr().out.startswith("tdb_")


@pytest.mark.parametrize("words", [[], ["--name", "a b"], ["--name", "local"], ["--name", "a", "--role", "god"]])
def test_key_needs_a_name_and_a_known_role(words: list[str]) -> None:
    assert main(app, ["key", "new", *words]) == 2
