"""A plan predicts the number of requests that a real server then counts."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.finished_groups import inventory_of
from tests.builders.s3_warehouse import OPTIONS, S3Warehouse, noise, properties_of
from tests.servers.s3 import S3Server
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.read.open_files import FETCHED_WHOLE
from tidyberg.model.options import RewriteMode
from tidyberg.planning import price
from tidyberg.storage.s3 import part_plan as parts
from tidyberg.storage.s3 import settings
from tidyberg.testing.deletes import delete_positions

READING = ("GetObject", "HeadObject")


def test_the_price_model_has_the_limits_of_the_client() -> None:
    assert price.WHOLE_BYTES == FETCHED_WHOLE
    assert price.PART_BYTES == settings.PART_BYTES
    assert (price.COPY_BYTES, price.SMALLEST_COPY) == (parts.LARGEST_COPY, parts.SMALLEST_PART)
    assert price.SENT_BYTES == parts.LARGEST_UPLOAD


@pytest.mark.parametrize(("mode", "deletes"), [(RewriteMode.ENCODE, 0), (RewriteMode.ENCODE, 4), (RewriteMode.COPY, 0)])
def test_a_plan_predicts_the_requests_of_its_job(
    tmp_path: Path, s3_server: S3Server, bucket: str, mode: RewriteMode, deletes: int
) -> None:
    """One or two may differ: they depend on the order of small files, and on how often PyIceberg loads the table."""
    sizes = [600_000, 1_000, 600_000, 20_000, 600_000, 1_000]
    with S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket)) as lake:
        table = lake.create_table(schema=noise(1, 0).schema)
        lake.append_files(table, len(sizes), files_per_commit=2, rows=lambda number: noise(sizes[number], number))
        for path in inventory_of(table).data_files["path"].to_pylist()[:deletes]:
            delete_positions(table, path, [0])
        before = len(s3_server.asked(bucket))
        with make_control(lake, InlineEngine()) as control:
            result = control.compact(REF, replace(OPTIONS, mode=mode))
        asked = Counter(operation for operation, _ in s3_server.asked(bucket)[before:])
    assert result.job.copied.groups == (mode is RewriteMode.COPY)
    (group,), counted = result.plan.groups, result.job.requests
    reads, total = sum(asked[operation] for operation in READING), asked.total()
    off = 2 if mode is RewriteMode.COPY else 0
    # The planner reads small delete files, not the tasks.
    assert group.estimate.get_requests == pytest.approx(counted["get"] + deletes, abs=off)
    assert group.estimate.put_requests == pytest.approx(sum(counted.values()) - counted["get"], abs=off)
    assert result.plan.estimate.put_requests == pytest.approx(total - reads, abs=off)
    assert result.plan.estimate.get_requests == pytest.approx(reads, abs=2)
