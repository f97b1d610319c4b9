"""The `iceberg-compaction-server` command of the contract, with its config.yaml."""

import tomllib
from pathlib import Path

import pytest

from tests.builders.settings_examples import SERVICE_EXAMPLE
from tidyberg.cli import compaction_server

ROOT = Path(__file__).parents[2]


def test_the_commands_of_the_contract_are_installed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["iceberg-compaction-server"] == "tidyberg.cli.compaction_server:run"
    assert {"tidyberg", "iceberg-compact"} <= set(scripts)


def test_the_config_of_the_contract_is_refused_without_access_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It listens on 0.0.0.0, where anybody could submit jobs."""
    (tmp_path / "config.yaml").write_text(SERVICE_EXAMPLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TIDYBERG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["iceberg-compaction-server"])
    with pytest.raises(SystemExit) as ended:
        compaction_server.run()
    assert ended.value.code == 2
    assert "0.0.0.0 can be reached from other machines" in capsys.readouterr().err
