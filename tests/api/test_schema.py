"""Schemathesis tests the whole API against its OpenAPI document."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.builders.api import running_service
from tests.seed import SEED
from tidyberg.settings.access import hash_key
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


KEY = "tdb_" + "k" * 43

# A refusal without a credential looks the same whether or not the request is valid.
SECURED_CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance")


@pytest.fixture(params=["open", "secured"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A service that runs jobs on the tables of the examples in the document, with or without API keys."""
    key = {"name": "tests", "hash": hash_key(KEY), "role": "admin", "tenant": "*"}
    with Warehouse(tmp_path / "lake", name="production") as warehouse:
        warehouse.append_files(warehouse.create_table("analytics.events"), 12, 50)
        warehouse.append_files(warehouse.create_table("analytics.sales"), 6, 10)
        settings = Settings.model_validate(
            {
                "engine": "inline",
                "catalog": {"name": "production", **warehouse.properties},
                "store": {"path": str(tmp_path / "state" / "jobs.db")},
                "access": {"api_keys": [key]} if request.param == "secured" else {},
                "server": {"max_wait_seconds": 60},  # overload on a busy machine is tested elsewhere
            }
        )
        with running_service(settings) as address:
            yield address


@pytest.mark.slow
@pytest.mark.parametrize("url", ["open"], indirect=True)
def test_every_response_matches_the_openapi_document(url: str, tmp_path: Path) -> None:
    ask(url, tmp_path, CHECKS, examples=300 if LONG else 8)


@pytest.mark.slow
@pytest.mark.parametrize("url", ["secured"], indirect=True)
@pytest.mark.parametrize("credential", [KEY, None], ids=["with_a_key", "without"])
def test_no_request_makes_a_service_with_keys_fail(url: str, tmp_path: Path, credential: str | None) -> None:
    """With and without a valid credential, no request causes a server error."""
    given = ["--header", f"Authorization: Bearer {credential}"] if credential else []
    ask(url, tmp_path, SECURED_CHECKS, *given, examples=100 if LONG else 3)


def ask(url: str, directory: Path, checks: Sequence[str], *more: str, examples: int) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"]
    command += ["--checks", ",".join(checks), "--seed", str(SEED), "--request-timeout", "30"]
    command += ["--max-examples", str(examples), "--warnings", "off", *more]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=directory, check=False)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
