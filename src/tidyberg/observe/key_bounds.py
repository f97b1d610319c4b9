"""Reads the bounds of a few columns from manifests, for plans that look at the order of files."""

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from tidyberg.manifests.entries import metric_names
from tidyberg.model.inventory import Inventory
from tidyberg.observe.reading import ReadManifests, stream_entries
from tidyberg.storage.table_files import read_bytes


def bound_columns(field_ids: Sequence[int]) -> tuple[str, ...]:
    """Returns the columns of manifest entries that are needed for the bounds of these fields."""
    return ("status", "path", *(name for field_id in field_ids for name in metric_names(field_id)))


def read_key_bounds(
    io: FileIO, inventory: Inventory, field_ids: Sequence[int], read_remotely: ReadManifests | None = None
) -> pa.Table:
    """Returns one row per data file of the inventory, in the same order.

    For each field there are the columns `lower_ID`, `upper_ID`, `nulls_ID` and `nans_ID`. They are null where the
    manifest says nothing. `read_remotely` must read the columns of `bound_columns`.
    """
    columns = bound_columns(field_ids)
    names = columns[2:]
    manifests = [info for info in inventory.manifests if not info.holds_deletes]
    if read_remotely is not None:
        found = read_remotely(manifests, None)
    else:
        found = stream_entries(partial(read_bytes, io), manifests, columns)
    pieces = [entries.table.select(["path", *names]) for _, entries in found]
    if not pieces:
        empty = pa.schema([(name, pa.binary() if name[0] in "lu" else pa.int64()) for name in names])
        return empty.empty_table()
    together = pa.concat_tables(pieces)
    at = pc.index_in(inventory.data_files["path"], value_set=together["path"].combine_chunks())
    return together.select(names).take(at).combine_chunks()
