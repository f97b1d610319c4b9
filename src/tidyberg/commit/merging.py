"""Decides which manifests that lose entries in one commit are merged. One request for each would dominate its cost.

Manifests that keep nothing are no part of one that keeps something: nobody reads those again after the next commit,
while their DELETED entries would stay as long as anything that is kept beside them.
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
    """Bundles losses. Each bundle becomes one manifest, up to about the size in the table's properties."""
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
    """What merged manifests must share: content, spec, all header fields and the entry schema."""
    source = loss.source
    if any(isinstance(kind, UUIDType) for kind in partition_types(source)):
        # Readers disagree on the order of UUIDs: summaries of several values would be wrong to some of them.
        return source.listed.path
    said = header_of(source, format_version).items()
    header = tuple(sorted((name, value) for name, value in said if not name.startswith("avro.")))
    return (
        source.listed.content,
        source.listed.spec_id,
        header,
        json.dumps(EntryEncoder.for_source(source, format_version).schema),
        # I8: rows that have no ids yet get them by their place among those of their manifest.
        source.listed.content == DATA and source.listed.first_row_id is None,
        len(loss.removed) == len(source.entries),
    )
