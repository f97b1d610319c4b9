"""The price of a rewrite equals a calculation by hand."""

import numpy as np
import pytest

from tests.builders.scenes import Delete, File, Scene, plan_for
from tidyberg.errors import BadInput
from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources, Strategy
from tidyberg.model.plan import Mode
from tidyberg.model.sizes import GB, MB
from tidyberg.planning.price import Pricing, Work, pricing_for, request_dollars

DAY_MS = 86_400_000


def pricing(
    properties: dict[str, str] | None = None,
    *,
    max_parallelism: int | None = None,
    calibration: Calibration | None = None,
    prices: Prices | None = None,
) -> Pricing:
    options = PlanOptions(max_parallelism=max_parallelism)
    return pricing_for(
        options, properties or {}, prices or Prices(), calibration or Calibration(), Resources(cores=4, memory_gb=8)
    )


def manifest(length: int = 1_000, spec_id: int = 0, *, holds_deletes: bool = False) -> ManifestInfo:
    return ManifestInfo("m.avro", length, spec_id, holds_deletes, 1, 1, None)


def test_requests_of_a_group_are_footers_reads_and_parts() -> None:
    estimate = pricing().price_group(pricing().work_of_group([MB] * 10 + [300 * MB], 1))
    assert estimate.get_requests == 10 + 2  # the large file: its footer and the rest
    assert estimate.put_requests == 10 + 2  # 310 MB in parts of 32 MB, opened and closed
    assert estimate.request_dollars == pytest.approx(12 * 0.0004 / 1000 + 12 * 0.005 / 1000)
    assert pricing().work_of_group([MB] * 3, 1).put_requests == 1


def test_the_time_of_a_group_grows_with_its_bytes_and_files() -> None:
    calibration = Calibration(encode_bytes_per_core_second=10 * MB, seconds_per_file=0.5, output_ratio=0.5)
    priced = pricing(calibration=calibration)
    estimate = priced.price_group(priced.work_of_group([10 * MB] * 4, 1))
    assert estimate.seconds == pytest.approx(4 + 2)
    assert estimate.compute_dollars == pytest.approx(6 / 4 * 8 * 0.0000166667)  # its share of four cores
    assert (estimate.bytes_read, estimate.bytes_written, estimate.bytes_saved) == (40 * MB, 20 * MB, 20 * MB)
    assert estimate.file_opens_saved == 3


def test_a_copy_has_its_own_rate_and_keeps_its_bytes() -> None:
    calibration = Calibration(copy_bytes_per_core_second=100 * MB, seconds_per_file=0.5, output_ratio=0.5)
    work = pricing(calibration=calibration).work_of_group([10 * MB] * 4, 1, mode="copy")
    assert work.core_seconds == pytest.approx(0.4 + 2)
    assert work.bytes_written == 40 * MB


@pytest.mark.parametrize(("mode", "seconds"), [("sort", 4.0), ("merge", 2.0), ("encode", 1.0)])
def test_rows_in_order_have_their_own_rates(mode: Mode, seconds: float) -> None:
    calibration = Calibration(
        encode_bytes_per_core_second=40 * MB,
        seconds_per_file=0,
        sort_bytes_per_core_second=10 * MB,
        merge_bytes_per_core_second=20 * MB,
    )
    work = pricing(calibration=calibration).work_of_group([10 * MB] * 4, 1, mode=mode)
    assert work.core_seconds == pytest.approx(seconds)


def test_a_server_side_copy_takes_one_read_and_one_copy_request_per_file() -> None:
    def work(location: str, mode: Mode) -> Work:
        priced = pricing_for(PlanOptions(), {}, Prices(), Calibration(), Resources(), location)
        return priced.work_of_group([48 * MB] * 20 + [600 * MB], 2, mode=mode)

    inside = work("s3://lake/events", "copy")
    assert inside.get_requests == 21 + 2 * 2
    assert inside.put_requests == 20 + 2 + 3 * 2
    encoded = work("s3://lake/events", "encode")
    assert (encoded.get_requests, encoded.put_requests) == (21 * 2, 2 * (25 + 2))
    # What a scan is spared does not depend on how the files were made.
    assert inside.scan_requests_before == encoded.scan_requests_before == 46
    # Tables on local disks are priced as if they were on S3; in other stores Arrow moves all bytes.
    assert (work("file:///lake/events", "copy"), work("/lake/events", "encode")) == (inside, encoded)
    modes: tuple[Mode, ...] = ("copy", "encode")
    for mode in modes:
        elsewhere = work("gs://lake/events", mode)
        assert (elsewhere.get_requests, elsewhere.put_requests) == (46, 2 * (78 + 2))


def test_files_too_short_for_a_copy_are_read_and_sent() -> None:
    some = pricing().work_of_group([48 * MB, *[4 * MB] * 5], 1, mode="copy")
    assert (some.get_requests, some.put_requests) == (6 + 5 + 1 + 2, 1 + 2 + 3)  # 20 MB in parts of 16 MB
    all_short = pricing().work_of_group([4 * MB] * 10, 1, mode="copy")
    assert (all_short.get_requests, all_short.put_requests) == (10 + 10 + 1, 2 + 2)
    assert pricing().work_of_group([MB] * 2, 1, mode="copy").put_requests == 1


def test_counted_requests_are_priced_by_kind() -> None:
    counted = {"get": 1000, "head": 500, "put": 10, "part_copy": 90, "delete": 10_000, "abort": 1}
    assert request_dollars(counted, Prices()) == pytest.approx(1.5 * 0.0004 + 0.1 * 0.005)
    assert request_dollars({}, Prices()) == 0


def test_a_job_adds_its_start_and_its_commit() -> None:
    calibration = Calibration(encode_bytes_per_core_second=10 * MB, seconds_per_file=0, seconds_per_job=4)
    priced = pricing(calibration=calibration)
    work = priced.work_of_group([10 * MB] * 10, 1)
    manifests = [manifest(length=3 * MB), manifest(length=4 * MB), manifest(holds_deletes=True)]
    one, two = priced.price_job(work, manifests, 1), priced.price_job(work + work, manifests, 1)
    assert one.seconds == pytest.approx(4 + 10)
    assert two.seconds == pytest.approx(4 + 20 / 2)  # two groups on two cores
    assert pricing(calibration=calibration, max_parallelism=1).price_job(work + work, manifests, 1).seconds == 24
    assert one.get_requests == work.get_requests + 2 * 3 + 13 + 1
    assert one.put_requests == work.put_requests + 2 + 1 + 2
    assert one.compute_dollars == pytest.approx(14 * 8 * 0.0000166667)
    assert one.dollars == one.request_dollars + one.compute_dollars
    assert one.dollars_per_gb == pytest.approx(one.dollars / (100 * MB / GB))


def test_rewritten_manifests_are_merged_by_content_spec_and_size() -> None:
    manifests = [
        *[manifest(length=3 * MB)] * 5,
        *[manifest(length=3 * MB, spec_id=1)] * 2,
        *[manifest(length=1_000, holds_deletes=True)] * 10,
    ]
    work = Work(tasks=1)

    def puts(properties: dict[str, str]) -> int:
        return pricing(properties).price_job(work, manifests, 1).put_requests - 1 - 2

    assert puts({}) == 2 + 1 + 1
    assert puts({"commit.manifest.target-size-bytes": str(6 * MB)}) == 3 + 1 + 1
    assert puts({"commit.manifest-merge.enabled": "false"}) == len(manifests)
    assert puts({"commit.manifest.target-size-bytes": "1"}) == len(manifests)


def test_replaced_bytes_are_stored_until_snapshots_expire() -> None:
    work = Work(tasks=1, input_files=2, output_files=1, bytes_read=GB, bytes_written=GB, bytes_replaced=GB)
    assert pricing().price_group(work).storage_dollars == pytest.approx(0.023 * 5 / 30)
    kept = pricing({"history.expire.max-snapshot-age-ms": str(30 * DAY_MS)})
    assert kept.price_group(work).storage_dollars == pytest.approx(0.023)
    year = pricing({"history.expire.max-snapshot-age-ms": str(365 * DAY_MS)})
    never = pricing({"history.expire.max-snapshot-age-ms": str(2**63 - 1)})
    assert never == year, "snapshots that never expire are priced for a year"
    assert pricing({"history.expire.max-snapshot-age-ms": "-5"}).retention_ms == 0, "Java takes it as an age too"
    with pytest.raises(BadInput, match="max-snapshot-age-ms"):
        pricing({"history.expire.max-snapshot-age-ms": "five days"})


def test_payback_counts_all_costs_against_requests_and_open_time_per_scan() -> None:
    prices = Prices(get_per_1000=1.0, put_per_1000=0.0, compute_per_gb_second=0.0, storage_per_gb_month=0.0)
    priced = pricing(prices=prices)
    estimate = priced.price_group(priced.work_of_group([MB] * 10, 1))
    assert estimate.dollars == pytest.approx(0.010)  # 10 GETs
    assert estimate.payback_scans == 1  # each scan saves 18
    stored = pricing(prices=Prices(1.0, 0.0, 0.0, 0.023 * 30_000))
    estimate = stored.price_group(stored.work_of_group([MB] * 10, 1))
    expected = (0.010 + 10 / 1024 * 0.023 * 30_000 / 6) / 0.018
    assert estimate.payback_scans == pytest.approx(expected, abs=1)


def test_a_rewrite_that_saves_no_request_never_pays_back() -> None:
    split = pricing().price_group(pricing().work_of_group([GB], 2))
    assert split.file_opens_saved == -1
    assert split.payback_scans is None
    nothing = pricing().price_job(Work(), [], 0)
    assert (nothing.dollars, nothing.seconds, nothing.payback_scans, nothing.dollars_per_gb) == (0, 0, None, 0)


def test_a_plan_prices_the_manifests_that_its_commit_rewrites() -> None:
    apart = plan_for(Scene([File(manifest=n % 3) for n in range(30)]))
    groups = apart.groups[0].estimate
    assert apart.estimate.put_requests == groups.put_requests + 1 + 1 + 2
    assert apart.estimate.get_requests == groups.get_requests + 2 * 3 + 13 + apart.groups[0].outputs
    assert apart.estimate.dollars > groups.dollars


def test_rows_known_to_be_deleted_are_not_written_and_each_group_reads_its_deletes() -> None:
    work = pricing().work_of_group([100 * MB] * 2, 1, 150 * MB, np.array([1_000, 200 * MB]))
    assert (work.bytes_read, work.bytes_written) == (200 * MB, 150 * MB)
    assert work.get_requests == 2 * 2 + 1 + 2
    assert work.put_requests == 5 + 2
    options = PlanOptions(strategy=Strategy.DELETE_FILES, max_delete_ratio=0)
    rows = 1_000 * MB // 100
    half = Delete("position", "file", references="f000000.parquet", records=rows // 2, manifest=7)
    plan = plan_for(Scene([File(1_000 * MB)], [half]), options)
    assert (plan.groups[0].outputs, plan.estimate.bytes_written) == (1, 500 * MB)
    assert plan.estimate.put_requests == plan.groups[0].estimate.put_requests + 2 + 1 + 2  # both manifests
    unknown = plan_for(Scene([File(1_000 * MB)], [Delete(records=rows // 2)]), options)
    assert (unknown.groups[0].outputs, unknown.estimate.bytes_written) == (2, 1_000 * MB)
    assert plan.estimate.payback_scans is not None
