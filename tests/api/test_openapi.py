"""The OpenAPI document is complete, up to date in docs/ and readable without a network."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tidyberg.settings.sections import OPTION_ALIASES

PUBLISHED = Path(__file__).parents[2] / "docs" / "openapi.json"


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_published_document_is_the_one_that_is_served(shared_client: httpx.Client) -> None:
    """`curl -s localhost:8080/openapi.json | python -m json.tool --no-ensure-ascii > docs/openapi.json` updates it."""
    served = shared_client.get("/openapi.json").json()
    assert json.loads(PUBLISHED.read_text()) == served


def test_every_operation_is_described_with_its_errors(shared_client: httpx.Client) -> None:
    document = shared_client.get("/openapi.json").json()
    ids = []
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation["description"], name
        ids.append(operation["operationId"])
        problems = {status: answer for status, answer in operation["responses"].items() if status[0] in "45"}
        if not name.startswith("GET /health"):
            assert {"401", "403", "422", "429", "503"} <= set(problems), name
            for answer in problems.values():
                assert list(answer["content"]) == ["application/problem+json"], name
        if "requestBody" in operation:
            assert {"400", "413", "415"} <= set(problems), name
        for parameter in operation.get("parameters", ()):
            described = parameter.get("description") or parameter["schema"].get("description")
            assert described or parameter["in"] == "path", f"{name} {parameter['name']}"
    assert len(set(ids)) == len(ids) == 31


def test_short_paths_are_not_in_the_document(shared_client: httpx.Client) -> None:
    paths = set(shared_client.get("/openapi.json").json()["paths"])
    # The contract of table operations has its path without a prefix, and reports of scans have those of REST catalogs.
    assert {path for path in paths if not path.startswith(("/api/v1/", "/health"))} == {
        "/database",
        "/v1/namespaces/{namespace}/tables/{table}/metrics",
        "/v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    }


def test_document_lists_every_option_alias(shared_client: httpx.Client) -> None:
    schemas = shared_client.get("/openapi.json").json()["components"]["schemas"]
    assert set(OPTION_ALIASES) <= set(schemas["Options"]["properties"])
    assert schemas["Options"]["additionalProperties"] is False
    assert schemas["CompactRequest"]["additionalProperties"] is False


def test_every_reference_resolves(shared_client: httpx.Client) -> None:
    text = shared_client.get("/openapi.json").text
    known = set(json.loads(text)["components"]["schemas"])
    assert set(re.findall(r"#/components/schemas/([A-Za-z]+)", text)) == known


def test_docs_page_makes_no_external_request(shared_client: httpx.Client) -> None:
    home = shared_client.get("/", follow_redirects=False)
    assert (home.status_code, home.headers["Location"]) == (307, "/docs")
    page = shared_client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"<script|<link|<img|url\(|https?://", page.text)
    for name, operation in operations(shared_client.get("/openapi.json").json()):
        assert f'id="{operation["operationId"]}"' in page.text or f"id={operation['operationId']}>" in page.text, name
