"""Reads settings from environment variables, as pydantic-settings does."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError
from pydantic_settings.sources.utils import parse_env_vars

from tidyberg.errors import ConfigurationError

_NESTED = "__"


def read_variables(given: Mapping[str, str], model: type[BaseModel], prefix: str) -> dict[str, Any]:
    """Return the settings that variables contain, in the structure of `model`."""
    try:
        return dict(_Variables(given, model, prefix)())
    except SettingsError as error:
        raise ConfigurationError(
            f"A {prefix}* variable cannot be read: {error}.", hint="Lists and maps are written as JSON."
        ) from None


class _Variables(EnvSettingsSource):
    """The reader of pydantic-settings, for a given mapping instead of os.environ."""

    def __init__(self, given: Mapping[str, str], model: type[BaseModel], prefix: str) -> None:
        self._given = given
        # The reader needs only the fields and the configuration of a class, which every model has.
        super().__init__(cast(type[BaseSettings], model), env_prefix=prefix, env_nested_delimiter=_NESTED)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return parse_env_vars(self._given, case_sensitive=False, ignore_empty=True)
