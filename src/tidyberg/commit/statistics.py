"""Finds statistics files of the parent that are also true of a replace snapshot, so that it keeps them.

A theta sketch counts the distinct values of a column. A replace changes no row, so the sketch is also right for the new
snapshot. As the spec requires, its blobs still name the snapshot that they were computed from. Both snapshots share the
Puffin file. Tools that expire snapshots compare paths, and delete it only when no remaining snapshot refers to it.
Partition statistics count files, which a replace changes, so they are not kept.
"""

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import SetStatisticsUpdate

_TRUE_WHILE_ROWS_STAY = {"apache-datasketches-theta-v1"}


def carried_statistics(metadata: TableMetadata, parent_id: int, snapshot_id: int) -> list[SetStatisticsUpdate]:
    carried = []
    for file in metadata.statistics:
        blobs = [blob for blob in file.blob_metadata if blob.type in _TRUE_WHILE_ROWS_STAY]
        if file.snapshot_id == parent_id and blobs:
            statistics = file.model_copy(update={"snapshot_id": snapshot_id, "blob_metadata": blobs})
            carried.append(SetStatisticsUpdate(statistics=statistics))
    return carried
