"""The whole API as its OpenAPI document describes it, asked by Schemathesis."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import serving
from tests.seed import SEED
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

LONG = bool(os.environ.get("TEST_LONG"))
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ensure_resource_availability",
)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A service that runs jobs, on the tables that the document's examples name."""
    with Warehouse(tmp_path / "lake", name="production") as warehouse:
        warehouse.append_files(warehouse.create_table("analytics.events"), 12, 50)
        warehouse.append_files(warehouse.create_table("analytics.sales"), 6, 10)
        settings = Settings.model_validate(
            {
                "engine": "inline",
                "catalog": {"name": "production", **warehouse.properties},
                "store": {"path": str(tmp_path / "state" / "jobs.db")},
            }
        )
        service = build_service(settings)
        service.start()
        try:
            with serving(create_app(service)) as address:
                yield address
        finally:
            service.stop()


@pytest.mark.slow
def test_no_request_makes_the_service_fail_or_answer_what_it_does_not_declare(url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"]
    command += ["--checks", ",".join(CHECKS), "--seed", str(SEED), "--request-timeout", "30"]
    command += ["--max-examples", "300" if LONG else "8", "--warnings", "off"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
