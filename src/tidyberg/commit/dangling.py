"""Finds the delete files that no data file can need once a commit's inputs are gone [I4].

Every attempt checks each delete file against the snapshot that the commit builds on. Comparing only with the oldest
remaining sequence number would drop deletes that the files of other writers still need.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.commit.conflicts import Replaceable, identities
from tidyberg.commit.entries import Identity
from tidyberg.model.inventory import Inventory
from tidyberg.planning.needed_deletes import NeededDeletes


def dangling_deletes(parent: Inventory, groups: Sequence[Replaceable], applied: Collection[Identity]) -> pa.Table:
    """Returns the rows of applied delete files, in the parent's table, that no remaining data file can need.

    The DV of a replaced file is always removed with it, even if the DV was rewritten meanwhile. So is the DV of a file
    that gets a new one, because a file has at most one.
    """
    deletes = parent.delete_files
    replaced = _paths(groups)
    by_key = _paths([group for group in groups if not group.group.keeps_data or group.merges_keys])
    is_vector = pc.equal(deletes["kind"].cast(pa.string()), "dv")
    of_replaced = pc.and_(is_vector, pc.is_in(deletes["referenced_data_file"], value_set=replaced))
    was_applied = pa.array([identity in applied for identity in identities(deletes)], pa.bool_())
    chosen = deletes.filter(pc.or_(of_replaced, was_applied))
    if chosen.num_rows == 0:
        return chosen
    # Outputs need no delete that was applied to their inputs. Nor does a file whose deletes were merged need those that
    # its new delete file or DV contains. Merging in v2 leaves equality deletes out, so its files still need them.
    remaining = _without(parent.data_files, replaced)
    needed = NeededDeletes(remaining, len(parent.partitions)).among(chosen)
    needed_keys = NeededDeletes(_without(parent.data_files, by_key), len(parent.partitions)).among(chosen)
    is_equality = pc.equal(chosen["kind"].cast(pa.string()), "equality").to_numpy()
    return chosen.filter(pa.array(~np.where(is_equality, needed_keys, needed)))


def _paths(groups: Sequence[Replaceable]) -> pa.Array:
    return pa.array([file.path for group in groups for file in group.group.files], pa.string())


def _without(data_files: pa.Table, paths: pa.Array) -> pa.Table:
    return data_files.filter(pc.invert(pc.is_in(data_files["path"], value_set=paths)))
