"""Reads from the table's properties how large a merged manifest may become."""

from collections.abc import Mapping

MERGE_PROPERTY = "commit.manifest-merge.enabled"
SIZE_PROPERTY = "commit.manifest.target-size-bytes"
_DEFAULT_BYTES = 8 * 1024 * 1024  # Iceberg's default


def merged_manifest_bytes(properties: Mapping[str, str]) -> int:
    """Return the largest size of a merged manifest. 0 means that manifests are not merged.

    Iceberg's `commit.manifest.min-count-to-merge` is ignored. It exists so that a commit need not rewrite manifests
    that it does not change, but a manifest that loses files must be rewritten in any case.
    """
    if properties.get(MERGE_PROPERTY, "true").lower() == "false":
        return 0
    text = properties.get(SIZE_PROPERTY, "").strip()
    return int(text) if text.isdigit() else _DEFAULT_BYTES
