"""Tells which files lie in the locations of a table. Others may belong to somebody else, so nobody deletes them."""

import functools
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.metadata import TableMetadata

from tidyberg.observe.path_keys import TEXT

_LOCATION_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
# Spellings that name the same file for certain.
_SPELLINGS = (("^/", "file:///"), ("^file:/([^/])", r"file:///\1"), ("^s3[an]://", "s3://"), ("^gcs://", "gs://"))
_UNCLEAR = r"://.*//|/\.\.?(/|$)"  # `..` leads elsewhere, and a store tells `//` from `/`


def table_roots(metadata: TableMetadata) -> tuple[str, ...]:
    """The directories in which writers of the table put its files."""
    given = [metadata.properties[name] for name in _LOCATION_PROPERTIES if metadata.properties.get(name)]
    return tuple(dict.fromkeys(root.rstrip("/") for root in (metadata.location, *given)))


def inside(paths: pa.ChunkedArray, roots: Collection[str]) -> pa.ChunkedArray:
    """A flag for each path: True if it certainly lies below one of the roots. A doubt means False."""
    spelled = _spelled(paths.cast(TEXT))
    starts = _spelled(pa.chunked_array([list(roots)], TEXT)).to_pylist()
    below = [pc.starts_with(spelled, f"{start}/") for start in starts]
    is_below = functools.reduce(pc.or_, below)
    return pc.and_(is_below, pc.invert(pc.match_substring_regex(spelled, _UNCLEAR)))


def root_of(path: str, roots: Collection[str]) -> str | None:
    """The innermost of the roots that the path certainly lies below, or None."""
    below = [root for root in roots if inside(pa.chunked_array([[path]], TEXT), (root,))[0].as_py()]
    return max(below, key=len, default=None)


def _spelled(locations: pa.ChunkedArray) -> pa.ChunkedArray:
    for pattern, replacement in _SPELLINGS:
        locations = pc.replace_substring_regex(locations, pattern, replacement)
    return locations


def spelled_roots(roots: Collection[str]) -> list[str]:
    """The roots in one spelling, each with a slash at its end: one lies in another if it begins with it."""
    return [f"{root.rstrip('/')}/" for root in _spelled(pa.chunked_array([list(roots)], TEXT)).to_pylist()]
