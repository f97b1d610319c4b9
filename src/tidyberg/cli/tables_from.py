"""Reads names of tables from a file: one per line, or the tables that a run of dbt has built."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidyberg.errors import BadInput

_NO_TABLES = ("view", "ephemeral")
_RESOURCES = ("model", "seed", "snapshot")
_COMMANDS = ("run", "build", "seed", "snapshot", "retry")  # others report success, too, and build nothing


def tables_from(path: Path) -> tuple[str, ...]:
    """Returns the tables of a text file, or those of dbt's run_results.json. Each table is returned once."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"Cannot read {path}: {error}.", hint="Give a text file, or dbt's target/run_results.json."
        ) from error
    names = _built_by_dbt(path, text) if path.suffix == ".json" else [line.strip() for line in text.splitlines()]
    return tuple(dict.fromkeys(name for name in names if name and not name.startswith("#")))


def _built_by_dbt(path: Path, text: str) -> list[str]:
    """Returns Iceberg tables that dbt has built without an error. The macro of the dbt package has the same rule."""
    results = _document(path, text)
    manifest = path.with_name("manifest.json")
    if not manifest.is_file():
        raise BadInput(f"There is no {manifest.name} beside {path}.", hint="dbt writes both into its target directory.")
    try:
        if results["args"]["which"] not in _COMMANDS:
            return []
        nodes = _document(manifest, manifest.read_text())["nodes"]
        built = [nodes[each["unique_id"]] for each in results["results"] if each["status"] == "success"]
        return [f"{node['schema']}.{node['alias']}" for node in built if _is_iceberg_table(node)]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path} and {manifest.name} are not of the same run of dbt, or of a dbt that is not known: {error!r}.",
            hint="Use the files that `dbt run` has just written, of dbt 1.8 or newer.",
        ) from error


def _document(path: Path, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}.", hint="Give dbt's target/run_results.json.") from error
    if not isinstance(found, dict):
        raise BadInput(f"{path} is not a file of dbt.", hint="Give dbt's target/run_results.json.")
    return found


def _is_iceberg_table(node: Mapping[str, Any]) -> bool:
    config = node.get("config") or {}
    if node["resource_type"] not in _RESOURCES or config.get("materialized") in _NO_TABLES:
        return False
    chosen = (config.get("meta") or {}).get("tidyberg")
    if chosen is not None:
        return bool(chosen)
    return "iceberg" in (str(config.get(name)).lower() for name in ("file_format", "table_format", "table_type"))
