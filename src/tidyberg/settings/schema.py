"""Builds the JSON schema of tidyberg.yaml."""

import json
from typing import Any

from tidyberg.settings.settings import Settings


def settings_schema() -> dict[str, Any]:
    schema = Settings.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def settings_schema_json() -> str:
    return json.dumps(settings_schema(), indent=2, sort_keys=True) + "\n"
