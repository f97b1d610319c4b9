"""Finds and merges the settings of a file and of TIDYBERG_* variables. Every error names the place of the mistake."""

import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tidyberg.errors import ConfigurationError
from tidyberg.settings.document import Document, KeyPath, read_document, top_level_keys
from tidyberg.settings.json_comments import plain_json
from tidyberg.settings.problems import describe_problem
from tidyberg.settings.profiles import PROFILE_VARIABLE, profile_layers
from tidyberg.settings.settings import DEFAULT_CATALOG, Settings
from tidyberg.settings.store import state_directory

_PREFIX = "TIDYBERG_"
CONFIG_VARIABLE = "TIDYBERG_CONFIG"
INSECURE_VARIABLE = "TIDYBERG_INSECURE"
# TIDYBERG_* variables that are not settings, such as paths and verbosity.
_RESERVED = {
    CONFIG_VARIABLE,
    "TIDYBERG_HOME",
    "TIDYBERG_DEBUG",
    INSECURE_VARIABLE,
    "TIDYBERG_SERVER",
    "TIDYBERG_TOKEN",
    PROFILE_VARIABLE,
}
# The contract's variables for one catalog, and the settings that they fill.
_CATALOG_VARIABLES = {
    "CATALOG_URI": "uri",
    "CATALOG_WAREHOUSE": "warehouse",
    "CATALOG_TOKEN": "token",
    "CATALOG_CREDENTIAL": "credential",
}
_CATALOGS = "catalogs"
_COMMON_NAME = "config.yaml"
_MARKS = {"catalog", _CATALOGS, "compaction", "tables"}
_NESTED_PROPERTIES = {"properties", "auth"}  # keys of one catalog whose values are mappings


def load_settings(path: Path | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Load settings from `path`, $TIDYBERG_CONFIG or a usual place, and then from the environment."""
    environ = os.environ if environ is None else environ
    found = find_config(path, environ)
    document = _read(found, environ) if found else Document({}, {})
    overrides = _catalogs_by_name(_environment_overrides(environ))
    data = document.data
    for layer in profile_layers(data, environ):
        data = _merge(data, _catalogs_by_name(layer))
    data = _merge(data, overrides)
    _add_catalog_of_environment(data, environ)
    _add_store(data, environ)
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise _explain(error, found, document.lines) from None


def find_config(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file that settings come from. None means that there is no file, which is valid."""
    named = path or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if named is not None:
        named = named.expanduser()
        if not named.is_file():
            origin = "--config" if path else f"${CONFIG_VARIABLE}"
            raise ConfigurationError(f"{origin} names {named}, which is not a file.")
        return named
    for candidate in usual_places(environ):
        if candidate.is_file() and (candidate.name != _COMMON_NAME or _is_about_tables(candidate)):
            return candidate
    return None


def usual_places(environ: Mapping[str, str]) -> list[Path]:
    home = Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return [Path("tidyberg.yaml"), Path(_COMMON_NAME), home / "tidyberg" / "tidyberg.yaml"]


def _is_about_tables(path: Path) -> bool:
    """Returns True if a config.yaml has a key that marks it as ours. Other programs use this name too."""
    try:
        return not _MARKS.isdisjoint(top_level_keys(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return False


def _read(path: Path, environ: Mapping[str, str]) -> Document:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from None
    if path.suffix.lower() == ".json":
        text = plain_json(text)
    document = read_document(text, str(path), environ)
    if not _is_by_name(document.data.get("catalog")):
        return document
    # Lines are found by the final place of a setting.
    moved = {(_CATALOGS, *at[1:]) if at[0] == "catalog" and len(at) > 1 else at: n for at, n in _paths(document)}
    return Document(_catalogs_by_name(document.data, f"{path}: "), {(): document.lines.get((), 1), **moved})


def _paths(document: Document) -> Iterator[tuple[KeyPath, int]]:
    return ((at, line) for at, line in document.lines.items() if at)


def _is_by_name(catalog: Any) -> bool:
    """Whether `catalog:` maps names to catalogs, as in ~/.pyiceberg.yaml, instead of holding one catalog."""
    if not isinstance(catalog, Mapping) or not catalog:
        return False
    return all(isinstance(value, Mapping) for value in catalog.values()) and not _NESTED_PROPERTIES & set(catalog)


def _catalogs_by_name(data: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Rewrite `catalog: {lab: {…}}` to `catalogs: {lab: {…}}`."""
    if not _is_by_name(data.get("catalog")):
        return dict(data)
    below = dict(data)
    named, more = below.pop("catalog"), below.get(_CATALOGS) or {}
    if isinstance(more, Mapping):
        if twice := sorted(set(named) & set(more)):
            raise ConfigurationError(f"{where}catalog {twice[0]!r} is given twice: under `catalog:` and `catalogs:`.")
        below[_CATALOGS] = {**named, **more}
    return below


def _environment_overrides(environ: Mapping[str, str]) -> dict[str, Any]:
    given = {key: value for key, value in environ.items() if key.upper().startswith(_PREFIX)}
    for reserved in _RESERVED:
        given.pop(reserved, None)
    for key in given:
        field = key[len(_PREFIX) :].split("__")[0].lower()
        if field not in Settings.model_fields:
            close = get_close_matches(field, Settings.model_fields, n=1)
            hint = f"Did you mean {_PREFIX}{close[0].upper()}?" if close else "`tidyberg config schema` lists them."
            raise ConfigurationError(f"The environment variable {key} is not a setting.", hint=hint)
    if not given:
        return {}  # most commands end here, and do not wait for pydantic-settings to be imported
    from tidyberg.settings.environment import read_variables

    return read_variables(given, Settings, _PREFIX)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(under, value)
        else:
            merged[key] = value
    return merged


def catalogs_of_file(path: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the names of the catalogs in a settings file."""
    return list(_names(_read(path, environ).data))


def catalogs_of_environment(path: Path | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the catalogs in environment variables, each with one of its variables."""
    found = find_config(path, environ)
    data = _merge(_read(found, environ).data if found else {}, _catalogs_by_name(_environment_overrides(environ)))
    single = data.get("catalog")
    name_of_single = str((single.get("name") if isinstance(single, Mapping) else None) or DEFAULT_CATALOG)
    names: dict[str, str] = {}
    for variable in sorted(environ):
        section, *rest = variable.upper().removeprefix(_PREFIX).split("__")
        if not variable.upper().startswith(_PREFIX) or section not in ("CATALOG", "CATALOGS"):
            continue
        of_one = section == "CATALOG" and isinstance(single, Mapping)
        for name in [name_of_single] if of_one else _names(data):
            if of_one or not rest or rest[0] == name.upper():
                names.setdefault(name, variable)
    if not single and not data.get(_CATALOGS) and environ.get("CATALOG_URI"):
        names[DEFAULT_CATALOG] = "CATALOG_URI"
    return names


def _names(data: Mapping[str, Any]) -> Iterator[str]:
    single, several = data.get("catalog"), data.get(_CATALOGS)
    if isinstance(single, Mapping):
        yield str(single.get("name") or DEFAULT_CATALOG)
    yield from several if isinstance(several, Mapping) else ()


def catalog_of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the catalog that CATALOG_URI and related variables describe."""
    return {key: environ[variable] for variable, key in _CATALOG_VARIABLES.items() if environ.get(variable)}


def _add_catalog_of_environment(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    """Add the catalog of CATALOG_URI, unless the settings have a catalog."""
    if environ.get("CATALOG_URI") and not data.get("catalog") and not data.get("catalogs"):
        data["catalog"] = catalog_of_environment(environ)


def _add_store(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    """Add the store of REDIS_URL, unless the settings have a store."""
    store = data.setdefault("store", {})
    if isinstance(store, dict):
        if environ.get("REDIS_URL") and not store.get("url") and not store.get("path"):
            store["url"] = environ["REDIS_URL"]
        store.setdefault("path", str(state_directory(environ) / "tidyberg.db"))


def _explain(error: ValidationError, path: Path | None, lines: Mapping[KeyPath, int]) -> ConfigurationError:
    problems = sorted((_line(problem["loc"], lines), describe_problem(Settings, problem)) for problem in error.errors())
    messages = [f"{path}, line {line}: {words}" if line else f"Environment: {words}" for line, words in problems]
    return ConfigurationError("\n".join(messages), hint="`tidyberg config schema` prints all settings.")


def _line(loc: Sequence[str | int], lines: Mapping[KeyPath, int]) -> int:
    """Return the line of the nearest key in the file, or 0 if the file has no such key."""
    parts = tuple(loc)
    for length in range(len(parts), 0, -1):
        if parts[:length] in lines:
            return lines[parts[:length]]
    return lines.get((), 0)
