"""The published schema is the one the settings are checked by."""

import json
from pathlib import Path

from tidyberg.settings.schema import settings_schema_json
from tidyberg.settings.settings import Settings

PUBLISHED = Path(__file__).parents[2] / "docs" / "tidyberg.schema.json"


def test_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == settings_schema_json(), "run: tidyberg config schema > docs/tidyberg.schema.json"


def test_schema_describes_every_setting_and_refuses_others() -> None:
    schema = json.loads(settings_schema_json())
    assert set(schema["properties"]) == set(Settings.model_fields)
    assert schema["additionalProperties"] is False
