"""How large a manifest may become that a commit writes in place of several: as the table's properties say."""

from collections.abc import Mapping

MERGE_PROPERTY = "commit.manifest-merge.enabled"
SIZE_PROPERTY = "commit.manifest.target-size-bytes"
_DEFAULT_BYTES = 8 * 1024 * 1024  # Iceberg's own


def merged_manifest_bytes(properties: Mapping[str, str]) -> int:
    """0: every manifest that loses files is written anew by itself.

    Iceberg's `commit.manifest.min-count-to-merge` spares a commit manifests that it need not touch, and is not asked
    here: a manifest that loses files must be written anyway.
    """
    if properties.get(MERGE_PROPERTY, "true").lower() == "false":
        return 0
    text = properties.get(SIZE_PROPERTY, "").strip()
    return int(text) if text.isdigit() else _DEFAULT_BYTES
