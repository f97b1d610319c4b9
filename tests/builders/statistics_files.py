"""Puffin statistics files in table metadata."""

from pyiceberg.table import Table
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

THETA = "apache-datasketches-theta-v1"


def add_statistics(table: Table, *kinds: str) -> StatisticsFile:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    blobs = [
        BlobMetadata.model_validate(
            {
                "type": kind,
                "snapshot-id": snapshot.snapshot_id,
                "sequence-number": 4,
                "fields": [1],
                "properties": {"ndv": "60"},
            }
        )
        for kind in kinds
    ]
    file = StatisticsFile.model_validate(
        {
            "snapshot-id": snapshot.snapshot_id,
            "statistics-path": f"{table.location()}/metadata/some.stats",
            "file-size-in-bytes": 100,
            "file-footer-size-in-bytes": 50,
            "blob-metadata": blobs,
        }
    )
    with table.update_statistics() as update:
        update.set_statistics(file)
    return file
