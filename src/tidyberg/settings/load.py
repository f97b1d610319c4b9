"""Finds and merges settings: a file, then TIDYBERG_* variables; every mistake names its place."""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError
from pydantic_settings.sources.utils import parse_env_vars

from tidyberg.errors import ConfigurationError
from tidyberg.settings.document import Document, KeyPath, read_document
from tidyberg.settings.problems import describe_problem
from tidyberg.settings.settings import Settings
from tidyberg.settings.store import state_directory

CONFIG_VARIABLE = "TIDYBERG_CONFIG"
INSECURE_VARIABLE = "TIDYBERG_INSECURE"
# TIDYBERG_* variables that are no settings: where things are, and how much to say.
_RESERVED = {
    CONFIG_VARIABLE,
    "TIDYBERG_HOME",
    "TIDYBERG_DEBUG",
    INSECURE_VARIABLE,
    "TIDYBERG_SERVER",
    "TIDYBERG_TOKEN",
}
# The contract's variables for one catalog, and what they set.
_CATALOG_VARIABLES = {
    "CATALOG_URI": "uri",
    "CATALOG_WAREHOUSE": "warehouse",
    "CATALOG_TOKEN": "token",
    "CATALOG_CREDENTIAL": "credential",
}


def load_settings(path: Path | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from `path`, else $TIDYBERG_CONFIG, ./tidyberg.yaml or ~/.config; then from the environment."""
    environ = os.environ if environ is None else environ
    found = find_config(path, environ)
    document = _read(found, environ) if found else Document({}, {})
    overrides = _environment_overrides(environ)
    data = _merge(document.data, overrides)
    _add_catalog_of_environment(data, environ)
    _add_store(data, environ)
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise _explain(error, found, document.lines) from None


def find_config(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file that settings come from; None when there is none, which is fine."""
    named = path or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if named is not None:
        named = named.expanduser()
        if not named.is_file():
            origin = "--config" if path else f"${CONFIG_VARIABLE}"
            raise ConfigurationError(f"{origin} names {named}, which is not a file.")
        return named
    for candidate in usual_places(environ):
        if candidate.is_file():
            return candidate
    return None


def usual_places(environ: Mapping[str, str]) -> list[Path]:
    home = Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return [Path("tidyberg.yaml"), home / "tidyberg" / "tidyberg.yaml"]


def _read(path: Path, environ: Mapping[str, str]) -> Document:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from None
    return read_document(text, str(path), environ)


class _Environment(EnvSettingsSource):
    """pydantic-settings' reader of variables, over the mapping it is given."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._given = environ
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return parse_env_vars(self._given, case_sensitive=False, ignore_empty=True)


def _environment_overrides(environ: Mapping[str, str]) -> dict[str, Any]:
    prefix = str(Settings.model_config["env_prefix"])
    given = {key: value for key, value in environ.items() if key.upper().startswith(prefix)}
    for reserved in _RESERVED:
        given.pop(reserved, None)
    for key in given:
        field = key[len(prefix) :].split("__")[0].lower()
        if field not in Settings.model_fields:
            close = get_close_matches(field, Settings.model_fields, n=1)
            hint = f"Did you mean {prefix}{close[0].upper()}?" if close else "`tidyberg config schema` lists them."
            raise ConfigurationError(f"The environment variable {key} is not a setting.", hint=hint)
    try:
        return dict(_Environment(given)())
    except SettingsError as error:
        raise ConfigurationError(
            f"A {prefix}* variable cannot be read: {error}.", hint="Lists and maps are written as JSON."
        ) from None


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(under, value)
        else:
            merged[key] = value
    return merged


def catalog_of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The catalog that CATALOG_URI and its companions describe."""
    return {key: environ[variable] for variable, key in _CATALOG_VARIABLES.items() if environ.get(variable)}


def _add_catalog_of_environment(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    """CATALOG_URI alone is enough to start; a catalog in the settings wins over it."""
    if environ.get("CATALOG_URI") and not data.get("catalog") and not data.get("catalogs"):
        data["catalog"] = catalog_of_environment(environ)


def _add_store(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    """REDIS_URL alone is enough for several replicas; a store in the settings wins over it, be it a file."""
    store = data.setdefault("store", {})
    if isinstance(store, dict):
        if environ.get("REDIS_URL") and not store.get("url") and not store.get("path"):
            store["url"] = environ["REDIS_URL"]
        store.setdefault("path", str(state_directory(environ) / "tidyberg.db"))


def _explain(error: ValidationError, path: Path | None, lines: Mapping[KeyPath, int]) -> ConfigurationError:
    problems = sorted((_line(problem["loc"], lines), describe_problem(Settings, problem)) for problem in error.errors())
    told = [f"{path}, line {line}: {words}" if line else f"Environment: {words}" for line, words in problems]
    return ConfigurationError("\n".join(told), hint="`tidyberg config schema` prints all settings.")


def _line(loc: Sequence[str | int], lines: Mapping[KeyPath, int]) -> int:
    """The line of the nearest key that the file holds; 0 when the file has none of it."""
    parts = tuple(loc)
    for length in range(len(parts), 0, -1):
        if parts[:length] in lines:
            return lines[parts[:length]]
    return lines.get((), 0)
