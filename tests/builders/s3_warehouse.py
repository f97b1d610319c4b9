"""A SQLite catalog whose tables are on the S3 server of the tests."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from tests.servers.s3 import S3Server
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.testing import Warehouse

OPTIONS = PlanOptions(strategy=Strategy.FULL, min_input_files=2)


def properties_of(server: S3Server, bucket: str, endpoint: str | None = None) -> dict[str, str]:
    """Returns catalog properties. `endpoint` is the address of a proxy, if one is used."""
    return {
        "warehouse": f"s3://{bucket}/warehouse",
        "s3.retry-strategy-impl": "tidyberg.catalog.s3_retries.PatientRetries",
        **server.properties,
        **({"s3.endpoint": endpoint} if endpoint else {}),
    }


class S3Warehouse(Warehouse):
    def __init__(self, directory: Path, properties: dict[str, str]) -> None:
        super().__init__(directory, properties=properties)

    def referenced(self, table: Table) -> set[str]:
        """Returns every object that the current metadata or any of its snapshots references."""
        table.refresh()
        found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
        for snapshot in table.metadata.snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                found.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io, False))
        return found


def noise(rows: int, seed: int) -> pa.Table:
    """Returns rows that hardly compress, about 32 bytes each, so that files reach a size."""
    drawn = np.random.default_rng(seed)
    raw = drawn.bytes(16 * rows)
    return pa.table(
        {
            "id": pa.array(range(seed * rows, (seed + 1) * rows), pa.int64()),
            "a": pa.array(drawn.integers(0, 2**62, rows), pa.int64()),
            "b": pa.array(drawn.random(rows), pa.float64()),
            "blob": pa.array([raw[start : start + 16] for start in range(0, 16 * rows, 16)], pa.binary()),
        }
    )
