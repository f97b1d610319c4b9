"""Writes a table of small files through the REST catalog, lets the service compact it, and shows the result."""

import os
import sys
import time

import pyarrow as pa
from pyarrow.fs import S3FileSystem
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tidyberg.client import Client
from tidyberg.model.words import plural

TABLE = "public.events"
FILES, ROWS = 30, 1000
START_SECONDS = 120


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def open_catalog() -> Catalog:
    """Opens the catalog, which may start later than this container."""
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            return load_catalog(
                "default",
                type="rest",
                uri=os.environ["CATALOG_URI"],
                **{
                    "s3.endpoint": os.environ["S3_ENDPOINT"],
                    "s3.region": os.environ["AWS_REGION"],
                    "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
                    "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
                },
            )
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(1)


def make_bucket() -> None:
    endpoint = os.environ["S3_ENDPOINT"]
    store = S3FileSystem(endpoint_override=endpoint, region=os.environ["AWS_REGION"], allow_bucket_creation=True)
    store.create_dir(os.environ.get("S3_BUCKET", "lake"))


def write_table(catalog: Catalog) -> Table:
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "name": [f"event {number}" for number in range(ROWS)]})
    catalog.create_namespace_if_not_exists("public")
    try:
        table = catalog.load_table(TABLE)
    except NoSuchTableError:
        table = catalog.create_table(TABLE, rows.schema)
    for _ in range(FILES):
        table.append(rows)
    return table


def state(table: Table) -> tuple[int, int]:
    table.refresh()
    return len(list(table.scan().plan_files())), table.scan().count()


def main() -> int:
    make_bucket()
    table = write_table(open_catalog())
    before = state(table)
    show(f"{TABLE} has {plural(before[0], 'file')} and {before[1]:,} rows. The service compacts it.")
    with Client(os.environ["TIDYBERG_SERVER"], token=os.environ["TIDYBERG_TOKEN"]) as client:
        created = client.submit(TABLE, strategy="small_files", options={"force": True})
        job = client.wait(created.job_id, timeout_seconds=600)
    after = state(table)
    show(f"Job {job.job_id} {job.status.value}: {TABLE} has {plural(after[0], 'file')} and {after[1]:,} rows.")
    return 0 if job.status.value == "succeeded" and after[0] < before[0] and after[1] == before[1] else 1


sys.exit(main())
