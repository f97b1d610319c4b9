"""Fills in the values that entries inherit from their manifest: sequence numbers, snapshot ids, row ids."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.manifests.entries import ManifestError
from tidyberg.model.manifest import ManifestInfo

_ADDED = 1


def inherit(entries: pa.Table, manifests: Sequence[ManifestInfo], manifest: npt.NDArray[np.int32]) -> pa.Table:
    """Returns the entries with inherited values. `manifest` has the position of each entry's manifest. Idempotent.

    Specification: "Sequence Number Inheritance". Raises ManifestError.
    """
    sequence = np.array([info.sequence_number for info in manifests], np.int64)[manifest]
    # Only added files may inherit. Version 1 has no sequence numbers, and its manifests have number 0.
    may_inherit = pc.or_(pc.equal(entries["status"], _ADDED), pa.array(sequence == 0))
    inherited = pc.if_else(may_inherit, pa.array(sequence), pa.scalar(None, pa.int64()))
    added_by = np.array([info.added_snapshot_id for info in manifests], np.int64)[manifest]
    filled = {
        "sequence_number": pc.coalesce(entries["sequence_number"], inherited),
        "file_sequence_number": pc.coalesce(entries["file_sequence_number"], inherited),
        "snapshot_id": pc.coalesce(entries["snapshot_id"], pa.array(added_by)),
        "first_row_id": _first_row_ids(entries, manifests, manifest),
    }
    for name, column in filled.items():
        if name != "first_row_id" and column.null_count:
            at = pc.index(pc.is_null(column), True).as_py()
            raise ManifestError(manifests[manifest[at]].path, f"{entries['path'][at]} has no {name.replace('_', ' ')}")
        entries = entries.set_column(entries.schema.get_field_index(name), name, column)
    return entries


def _first_row_ids(
    entries: pa.Table, manifests: Sequence[ManifestInfo], manifest: npt.NDArray[np.int32]
) -> pa.ChunkedArray:
    """Assigns first row ids (version 3, row lineage). Files without one are numbered from their manifest's id.

    If the manifest has none, its files have none: the snapshot is older than the upgrade to version 3.
    """
    own = entries["first_row_id"]
    bases = [None if info.holds_deletes else info.first_row_id for info in manifests]
    if all(base is None for base in bases):
        return pa.chunked_array([pa.nulls(len(own), own.type)])
    missing = pc.is_null(own).to_numpy()
    rows = np.where(missing, entries["records"].to_numpy(), 0)
    before = np.cumsum(rows) - rows
    starts = np.searchsorted(manifest, np.arange(len(manifests)))
    at_start = np.append(before, 0)[starts]
    base = pa.array(bases, pa.int64()).take(pa.array(manifest))
    inherited = pc.add(base, pa.array(before - at_start[manifest]))
    return pc.if_else(pc.is_null(base), base, pc.coalesce(own, inherited))
