"""The published JSON schema equals the schema of the settings."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.settings_examples import BASIC_EXAMPLE, SERVICE_EXAMPLE, TABLES_EXAMPLE
from tidyberg.settings.schema import settings_schema_json
from tidyberg.settings.settings import Settings

SCHEMA = json.loads(settings_schema_json())
PUBLISHED = Path(__file__).parents[2] / "docs" / "tidyberg.schema.json"


def test_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == settings_schema_json(), "run: tidyberg config schema > docs/tidyberg.schema.json"


def test_schema_describes_every_setting_and_refuses_others() -> None:
    assert set(SCHEMA["properties"]) == set(Settings.model_fields)
    assert SCHEMA["additionalProperties"] is False


@pytest.mark.parametrize("example", [SERVICE_EXAMPLE, BASIC_EXAMPLE, TABLES_EXAMPLE])
def test_schema_knows_every_key_of_the_contracts_examples(example: str) -> None:
    assert list(unknown_keys(yaml.safe_load(example), SCHEMA)) == []


def unknown_keys(data: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    if "anyOf" in schema:
        schema = next(option for option in schema["anyOf"] if option.get("type") != "null")
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(data, dict):
        for key, value in data.items():
            if key in schema.get("properties", {}):
                yield from unknown_keys(value, schema["properties"][key], f"{path}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{path}.{key}"
    elif isinstance(data, list):
        for item in data:
            yield from unknown_keys(item, schema["items"], path)
