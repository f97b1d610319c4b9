"""Compares the locations of files so that one file is never taken for two.

One file has several spellings: `s3://` and `s3a://`, `file:/a` and `/a`, with or without the port of a name node,
doubled slashes, percent signs. Locations with equal keys may be the same file. Two different files can have equal keys
too, for example in two buckets. Who deletes files keeps every file whose key is needed, and so keeps too many at worst.
"""

import posixpath
import re
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()  # the paths of a large table have more bytes than Arrow's strings hold
_SCHEME_AND_AUTHORITY = r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?"
_UNUSUAL = r"%|/\.\.?(/|$)"


def path_keys(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    keys = pc.replace_substring_regex(paths.cast(TEXT), _SCHEME_AND_AUTHORITY, "")
    keys = pc.replace_substring_regex(keys, "/{2,}", "/")
    unusual = pc.match_substring_regex(keys, _UNUSUAL)
    if not pc.any(unusual).as_py():
        return keys
    plain = pa.array([_plain(text) for text in keys.filter(unusual).to_pylist()], TEXT)
    return pa.chunked_array([pc.replace_with_mask(keys.combine_chunks(), unusual.combine_chunks(), plain)])


def _plain(text: str) -> str:
    return re.sub("/{2,}", "/", posixpath.normpath(unquote(text)))
