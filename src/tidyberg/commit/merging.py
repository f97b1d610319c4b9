"""Decides which manifests are merged when they lose entries in a commit. Writing each one would dominate the cost.

Manifests that lose all their entries are not merged with others. The next commit drops a manifest that has only DELETED
entries. Merged with live entries, they would stay as long as those.
"""

import json
from collections.abc import Mapping, Sequence

from pyiceberg.types import UUIDType

from tidyberg.commit.entries import EntryEncoder
from tidyberg.commit.manifests import Loss, header_of
from tidyberg.commit.new_partitions import partition_types
from tidyberg.model.merging import merged_manifest_bytes
from tidyberg.observe.manifest_list import DATA


def merge_losses(losses: Sequence[Loss], format_version: int, properties: Mapping[str, str]) -> list[tuple[Loss, ...]]:
    """Groups losses. Each group becomes one manifest of at most about the size in the table's properties."""
    limit = merged_manifest_bytes(properties)
    bundles: list[list[Loss]] = []
    open_bundles: dict[object, tuple[list[Loss], int]] = {}
    for loss in losses:
        size = loss.source.listed.length
        likeness = _likeness(loss, format_version)
        bundle, filled = open_bundles.get(likeness, ([], limit))
        if filled + size > limit:
            bundle, filled = [], 0
            bundles.append(bundle)
        bundle.append(loss)
        open_bundles[likeness] = (bundle, filled + size)
    return [tuple(bundle) for bundle in bundles]


def _likeness(loss: Loss, format_version: int) -> object:
    """Returns what merged manifests must have in common: content, spec, all header fields and the entry schema."""
    source = loss.source
    if any(isinstance(kind, UUIDType) for kind in partition_types(source)):
        # Readers order UUIDs differently, so a summary of several values would be wrong for some of them.
        return source.listed.path
    said = header_of(source, format_version).items()
    header = tuple(sorted((name, value) for name, value in said if not name.startswith("avro.")))
    return (
        source.listed.content,
        source.listed.spec_id,
        header,
        json.dumps(EntryEncoder.for_source(source, format_version).schema),
        # I8: rows without ids get them by their position in the manifest.
        source.listed.content == DATA and source.listed.first_row_id is None,
        len(loss.removed) == len(source.entries),
    )
