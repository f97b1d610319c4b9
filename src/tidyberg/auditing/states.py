"""Compares two states of a table and finds the data files that a reader sees differently.

A file differs if it is in one state only, or more often in one, or has another sequence number or first row id. It also
differs if a delete that applies to it is in one state only. All other files read the same in both states.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.errors import Unsupported
from tidyberg.model.inventory import Inventory
from tidyberg.planning.deletes import DeleteIndex

_FILE = ("path", "sequence_number", "spec_id", "records")
_DELETE = ("path", "content_offset", "content_size", "kind", "sequence_number", "spec_id", "referenced_data_file")


@dataclass(frozen=True)
class State:
    """One state: its data files in the order that DeleteIndex needs, and the files that differ in the other state."""

    inventory: Inventory
    files: pa.Table
    deletes: DeleteIndex
    differing: npt.NDArray[np.int64]  # positions in `files`


def differing_states(before: Inventory, after: Inventory) -> tuple[State, State]:
    files = _ordered(before), _ordered(after)
    deletes = tuple(_strict_index(table, inventory) for table, inventory in zip(files, (before, after), strict=True))
    keys = [_file_keys(table, inventory) for table, inventory in zip(files, (before, after), strict=True)]
    _forgive_first_ids(keys)
    delete_keys = [
        _delete_keys(index.rows, inventory) for index, inventory in zip(deletes, (before, after), strict=True)
    ]
    one_sided = _one_sided(*keys)
    touched = [
        index.touched(np.array([key in side for key in own], np.bool_))
        for index, own, side in zip(deletes, delete_keys, _one_sided(*delete_keys), strict=True)
    ]
    by_touch = {key for own, mask in zip(keys, touched, strict=True) for key in _chosen(own, mask)}
    states = [
        State(
            inventory,
            table,
            index,
            np.flatnonzero(np.array([key in side or key in by_touch for key in own], np.bool_)),
        )
        for inventory, table, index, own, side in zip((before, after), files, deletes, keys, one_sided, strict=True)
    ]
    for state in states:
        _refuse_unreadable(state)
    return states[0], states[1]


def whole_state(inventory: Inventory) -> State:
    """Returns a state of which every file is read. Raises Unsupported if one cannot be."""
    files = _ordered(inventory)
    state = State(inventory, files, _strict_index(files, inventory), np.arange(files.num_rows))
    _refuse_unreadable(state)
    return state


def _ordered(inventory: Inventory) -> pa.Table:
    order = [(name, "ascending") for name in ("partition", "sequence_number", "path")]
    return inventory.data_files.sort_by(order)


def _strict_index(files: pa.Table, inventory: Inventory) -> DeleteIndex:
    """Applies deletes by the specification alone: a file sequence number of zero makes no position delete too early."""
    at = files.schema.get_field_index("file_sequence_number")
    zeros = pa.array(np.zeros(files.num_rows, np.int64))
    return DeleteIndex(files.set_column(at, files.schema.field(at), zeros), inventory.delete_files)


def _file_keys(files: pa.Table, inventory: Inventory) -> list[Hashable]:
    ids = files["first_row_id"].to_pylist()
    return [(*key, first) for key, first in zip(_keys(files, _FILE, inventory), ids, strict=True)]


def _forgive_first_ids(keys: list[list[Any]]) -> None:
    """Rows without ids may get them. Their file then has a key without an id in both states."""
    unnumbered = {key[:-1] for key in keys[0] if key[-1] is None}
    keys[1][:] = [(*key[:-1], None) if key[:-1] in unnumbered else key for key in keys[1]]


def _delete_keys(deletes: pa.Table, inventory: Inventory) -> list[Hashable]:
    ids = deletes["equality_ids"].to_pylist()
    return [(*key, tuple(some or ())) for key, some in zip(_keys(deletes, _DELETE, inventory), ids, strict=True)]


def _keys(rows: pa.Table, names: Sequence[str], inventory: Inventory) -> list[tuple[Any, ...]]:
    # Each inventory numbers partitions differently. As text, NaN equals itself.
    partitions = [repr(partition.values) for partition in inventory.partitions]
    columns = [rows[name].to_pylist() for name in names]
    return [(*values, partitions[at]) for at, *values in zip(rows["partition"].to_pylist(), *columns, strict=True)]


def _one_sided(before: Sequence[Hashable], after: Sequence[Hashable]) -> tuple[set[Hashable], set[Hashable]]:
    """The keys of each side that occur more or less often on the other side."""
    counts = Counter(before), Counter(after)
    differing = {key for key in counts[0].keys() | counts[1].keys() if counts[0][key] != counts[1][key]}
    return differing & counts[0].keys(), differing & counts[1].keys()


def _chosen(keys: Sequence[Hashable], mask: npt.NDArray[np.bool_]) -> list[Hashable]:
    return [key for key, chosen in zip(keys, mask, strict=True) if chosen]


def _refuse_unreadable(state: State) -> None:
    files = state.files.take(pa.array(state.differing))
    for path, kind, encrypted in zip(
        files["path"].to_pylist(), files["format"].to_pylist(), files["encrypted"].to_pylist(), strict=True
    ):
        if kind != "PARQUET" or encrypted:
            raise Unsupported(f"{path} is {'encrypted' if encrypted else kind}: its rows cannot be read.")
    unreadable = state.deletes.unreadable()
    if unreadable.any():
        reached = state.deletes.touched(unreadable)[state.differing]
        if reached.any():
            path = state.deletes.rows["path"][int(np.flatnonzero(unreadable)[0])].as_py()
            raise Unsupported(f"{path} is a delete file of a format that cannot be read.")
