"""The Postman collection is generated from the OpenAPI document, and its requests pass in their order."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.builders.api import running_service
from tests.servers.newman import NewmanMissingError, newman
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

SCRIPT = Path(__file__).parents[2] / "scripts" / "postman.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("postman", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_published_collection_is_current() -> None:
    postman = script()
    for path, document in postman.documents(json.loads(postman.OPENAPI.read_text())).items():
        assert json.loads(path.read_text()) == document, "run: python scripts/postman.py"


def test_the_collection_passes_in_its_order(tmp_path: Path) -> None:
    try:
        program = newman()
    except NewmanMissingError as error:
        if os.environ.get("CI"):
            pytest.fail(f"newman is missing: {error}")
        pytest.skip(f"newman is missing: {error}")
    postman = script()
    report = tmp_path / "report.json"
    with Warehouse(tmp_path / "lake", name="default") as lake:
        settings = Settings.model_validate(
            {
                "engine": "inline",
                "catalog": lake.properties,
                "store": {"path": str(tmp_path / "jobs.db")},
                "operations": {"enabled": True},
            }
        )
        with running_service(settings) as address:
            arguments = ["run", str(postman.COLLECTION), "-e", str(postman.ENVIRONMENT)]
            arguments += ["--env-var", f"base_url={address}", "--reporters", "cli,json"]
            arguments += ["--reporter-json-export", str(report)]
            done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-500:]
    run = json.loads(report.read_text())["run"]
    names = [execution["item"]["name"].partition(". ")[2] for execution in run["executions"]]
    writes = [f"WRITE {number} of 5" for number in range(1, 6)]
    assert names == ["Health Check", "CREATE TABLE", *writes, "COMPACT", "QUERY"]
    assert run["stats"]["assertions"] == {"total": 16, "pending": 0, "failed": 0}
