"""Helps to test tidyberg and your own code: a warehouse, deterministic rows, and tables without data."""

from tidyberg.testing.forge import forge_table
from tidyberg.testing.manifests import LiveFile
from tidyberg.testing.reading import local_path
from tidyberg.testing.samples import SAMPLE_SCHEMA, sample_rows
from tidyberg.testing.static import ForgedEntry, ForgedManifest, forge_static_table
from tidyberg.testing.warehouse import Warehouse

__all__ = [
    "SAMPLE_SCHEMA",
    "ForgedEntry",
    "ForgedManifest",
    "LiveFile",
    "Warehouse",
    "forge_static_table",
    "forge_table",
    "local_path",
    "sample_rows",
]
