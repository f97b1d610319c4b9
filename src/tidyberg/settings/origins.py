"""Lists the known catalogs and their origins: a file, the environment, or PyIceberg's configuration."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.utils.config import Config

from tidyberg.errors import UnknownCatalog
from tidyberg.redact import redact
from tidyberg.settings.catalogs import catalog_properties, default_catalog_name, known_catalogs
from tidyberg.settings.load import catalogs_of_environment, catalogs_of_file, find_config
from tidyberg.settings.settings import Settings

_PYICEBERG_FILE = ".pyiceberg.yaml"
_PYICEBERG_PREFIX = "PYICEBERG_CATALOG__"


@dataclass(frozen=True)
class KnownCatalog:
    """A catalog without its secrets. If several places describe it, the first one wins."""

    name: str
    origins: tuple[str, ...]
    is_default: bool
    type: str | None
    uri: str | None


def catalogs_with_origins(settings: Settings, path: Path | None) -> list[KnownCatalog]:
    origins: dict[str, list[str]] = {}
    for name, origin in _found(path, os.environ):
        origins.setdefault(name, []).append(origin)
    try:
        default = default_catalog_name(settings)
    except UnknownCatalog:  # there is no catalog, or there are several without a default
        default = None
    return [_describe(settings, name, origins.get(name, []), name == default) for name in known_catalogs(settings)]


def _describe(settings: Settings, name: str, origins: list[str], is_default: bool) -> KnownCatalog:
    shown = redact(catalog_properties(settings, name))  # I12
    kind, uri = shown.get("type"), shown.get("uri")
    return KnownCatalog(
        name, tuple(origins), is_default, None if kind is None else str(kind), None if uri is None else str(uri)
    )


def _found(path: Path | None, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    in_environment = catalogs_of_environment(path, environ)
    for name, variable in in_environment.items():
        yield name, f"environment ({variable})"
    if (file := find_config(path, environ)) is not None:
        for name in catalogs_of_file(file, environ):
            yield name, str(file)
    variables = {name.lower(): name for name in environ if name.upper().startswith(_PYICEBERG_PREFIX)}
    for name in Config().get_known_catalogs():
        prefix = f"{_PYICEBERG_PREFIX}{name}__".lower()
        if given := [own for lower, own in variables.items() if lower.replace("_", "-").startswith(_dashed(prefix))]:
            yield name, f"environment ({sorted(given)[0]})"
    in_file = (Config._from_configuration_files() or {}).get("catalog")
    for name in in_file if isinstance(in_file, dict) else ():
        yield str(name), _pyiceberg_file(environ)


def _dashed(text: str) -> str:
    return text.replace("_", "-")


def _pyiceberg_file(environ: Mapping[str, str]) -> str:
    """Return the first configuration file in PyIceberg's home, the user's home and the working directory."""
    home = Path.home()
    places = [Path(environ["PYICEBERG_HOME"])] if environ.get("PYICEBERG_HOME") else []
    for place in (*places, home, Path.cwd()):
        if (place / _PYICEBERG_FILE).is_file():
            return f"~/{_PYICEBERG_FILE}" if place == home else str(place / _PYICEBERG_FILE)
    return _PYICEBERG_FILE
