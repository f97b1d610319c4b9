"""Estimates adapt to the installation, and one outlier never makes them worse."""

import json
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.job_records import RUN
from tests.builders.sorted_tables import append_claiming, create_sorted_table, in_order, rows_from
from tidyberg.app import build_control
from tidyberg.control.calibration import calibrate, report
from tidyberg.model.job import CopyTotals, Job, JobStatus, OrderTotals, Progress, SpliceTotals
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources, Strategy
from tidyberg.model.sizes import KB, MB
from tidyberg.model.table import TableRef
from tidyberg.planning.price import pricing_for
from tidyberg.record.documents import JOB
from tidyberg.settings.sections import PriceList
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

CORES = 4
TRUTHS = {
    "a laptop": Calibration(),
    "a fast machine": Calibration(0, 160 * MB, 0.5, 0.002, 0.8),
    "object storage": Calibration(0, 60 * MB, 9.0, 0.12, 1.0),
    "a slow machine": Calibration(0, 8 * MB, 15.0, 0.05, 1.1),
}


def work(random_: random.Random) -> list[int]:
    """Sizes of the files of a job: few large ones, many tiny ones, or something between."""
    kind = random_.choice(["large", "tiny", "between"])
    files = {"large": 40, "tiny": 800, "between": 200}[kind]
    size = {"large": 24 * MB, "tiny": 40 * KB, "between": 2 * MB}[kind]
    return [round(size * random_.uniform(0.5, 1.5)) for _ in range(round(files * random_.uniform(0.5, 2)))]


def seconds_of(sizes: list[int], calibration: Calibration) -> float:
    """As the planner predicts them, for a job of eight tasks."""
    pricing = pricing_for(PlanOptions(), {}, Prices(), calibration, Resources(CORES, 4.0, "lab"))
    return pricing.price_job(pricing.work_of_group(sizes, 1, tasks=8), [], 1).seconds


def job_of(sizes: list[int], truth: Calibration, factor: float = 1.0) -> Job:
    """How a job of these files goes where the truth holds, by a factor of luck."""
    whole = seconds_of(sizes, truth) * factor
    execute = whole - truth.seconds_per_job * factor
    written = round(sum(sizes) * truth.output_ratio)
    return replace(
        RUN,
        cluster="lab",
        cores=CORES,
        task_seconds=execute * CORES,
        started_ms=0,
        finished_ms=round(whole * 1000),
        progress=Progress(1, 1, 8, 8, len(sizes), sum(sizes), written),
    )


def mean_error(calibration: Calibration, truth: Calibration) -> float:
    """How far estimates are off, as a factor above 1, over some jobs that were not learned from."""
    jobs = [work(random.Random(seed)) for seed in range(1000, 1010)]
    ratios = [seconds_of(sizes, calibration) / seconds_of(sizes, truth) for sizes in jobs]
    return sum(max(ratio, 1 / ratio) for ratio in ratios) / len(ratios)


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_estimates_converge(truth: Calibration) -> None:
    luck = random.Random(1)
    jobs: list[Job] = []
    errors = [mean_error(calibrate(jobs, "lab"), truth)]
    for number in range(40):
        jobs.insert(0, job_of(work(random.Random(number)), truth, luck.lognormvariate(0, 0.15)))
        errors.append(mean_error(calibrate(jobs, "lab"), truth))
    assert errors[-1] < 1.25
    assert max(errors[20:]) < 1.4
    assert errors[-1] <= errors[0] + 0.15


@settings(max_examples=40)
@given(
    truth=st.sampled_from(list(TRUTHS.values())),
    before=st.integers(0, 30),
    factor=st.sampled_from([1e-3, 0.02, 0.2, 8.0, 100.0, 1e5]),
    seed=st.integers(0, 10_000),
)
def test_one_outlier_hardly_changes_an_estimate(truth: Calibration, before: int, factor: float, seed: int) -> None:
    luck = random.Random(seed)
    jobs = [job_of(work(luck), truth, luck.lognormvariate(0, 0.05)) for _ in range(before)]
    worst_before = max(mean_error(calibrate(jobs[n:], "lab"), truth) for n in range(min(4, before + 1)))
    astray = job_of(work(luck), truth, factor)
    after = mean_error(calibrate([astray, *jobs], "lab"), truth)
    assert after <= max(worst_before, mean_error(Calibration(), truth)) * 1.1


def test_without_jobs_the_defaults_hold_and_one_job_changes_no_speed() -> None:
    assert calibrate([], "lab") == Calibration()
    one = calibrate([job_of(work(random.Random(1)), TRUTHS["a slow machine"])], "lab")
    assert replace(one, jobs=0) == Calibration()


def test_copied_and_encoded_bytes_have_separate_rates() -> None:
    truth = Calibration(encode_bytes_per_core_second=8 * MB, output_ratio=1.1)
    encoding = [job_of([24 * MB] * 40, truth)] * 4
    sizes = [48 * MB] * 200
    alike = job_of(sizes, Calibration(encode_bytes_per_core_second=900 * MB))
    copying = [replace(alike, copied=CopyTotals(8, len(sizes), sum(sizes), alike.task_seconds))] * 6
    learned = calibrate([*copying, *encoding], "lab")
    assert learned.encode_bytes_per_core_second == pytest.approx(8 * MB, rel=0.01)
    assert learned.output_ratio == pytest.approx(1.1)
    assert learned.copy_bytes_per_core_second == pytest.approx(900 * MB, rel=0.01)
    assert calibrate(encoding, "lab").copy_bytes_per_core_second == Calibration().copy_bytes_per_core_second


def test_spliced_groups_are_no_samples_of_the_encoding_speed() -> None:
    """A job of one group that was encoded and one that was spliced, three times as fast and with other outputs."""
    truth = Calibration(encode_bytes_per_core_second=8 * MB, output_ratio=1.1, seconds_per_job=15.0)
    plain = job_of([24 * MB] * 40, truth)
    files, read = plain.progress.files_processed, plain.progress.bytes_read
    spliced = SpliceTotals(1, files, read, read // 2, 2 * read, plain.task_seconds / 3)
    both = replace(
        plain,
        spliced=spliced,
        task_seconds=plain.task_seconds * 4 / 3,
        finished_ms=(plain.finished_ms or 0) + round(1000 * spliced.seconds / CORES),
        progress=replace(
            plain.progress,
            files_processed=2 * files,
            bytes_read=2 * read,
            bytes_written=plain.progress.bytes_written + spliced.bytes_written,
        ),
    )
    learned, expected = calibrate([both] * 6, "lab"), calibrate([plain] * 6, "lab")
    for name in ("encode_bytes_per_core_second", "seconds_per_file", "output_ratio", "seconds_per_job"):
        assert getattr(learned, name) == pytest.approx(getattr(expected, name), rel=0.01), name
    assert learned.encode_bytes_per_core_second == pytest.approx(8 * MB, rel=0.01)


def ordered_job(mode: Literal["sort", "merge"], truth: Calibration, tasks: int = 8) -> Job:
    """How a job goes that sorts one group by a shuffle, or merges eight groups in order."""
    sizes = [24 * MB] * 40
    pricing = pricing_for(PlanOptions(), {}, Prices(), truth, Resources(CORES, 4.0, "lab"))
    work = pricing.work_of_group(sizes, tasks, mode=mode, tasks=tasks)
    groups = 1 if mode == "sort" else tasks
    totals = OrderTotals(groups, len(sizes), sum(sizes), tasks, work.core_seconds)
    return replace(
        job_of(sizes, truth),
        task_seconds=work.core_seconds,
        finished_ms=round(1000 * pricing.price_job(work, [], 1).seconds),
        progress=Progress(1, 1, groups, groups, len(sizes), sum(sizes), work.bytes_written),
        sorts=totals if mode == "sort" else OrderTotals(),
        run_merges=totals if mode == "merge" else OrderTotals(),
    )


def figures(calibration: Calibration) -> dict[str, float]:
    return asdict(replace(calibration, jobs=0))


@pytest.mark.parametrize("tasks", [1, 2, 8])
def test_sorts_teach_their_own_rate_even_if_a_job_sorts_one_group(tasks: int) -> None:
    truth = Calibration(sort_bytes_per_core_second=6 * MB, output_ratio=0.7, seconds_per_job=11.0)
    learned = calibrate([ordered_job("sort", truth, tasks)] * 3, "lab")
    assert figures(learned) == pytest.approx(figures(truth), rel=0.01)


def test_merges_in_order_teach_their_own_rate() -> None:
    truth = Calibration(merge_bytes_per_core_second=6 * MB, output_ratio=0.7, seconds_per_job=11.0)
    learned = calibrate([ordered_job("merge", truth)] * 3, "lab")
    assert figures(learned) == pytest.approx(figures(truth), rel=0.01)


def test_one_sort_changes_no_rate() -> None:
    truth = Calibration(sort_bytes_per_core_second=6 * MB)
    assert replace(calibrate([ordered_job("sort", truth)], "lab"), jobs=0) == Calibration()


@pytest.mark.parametrize("read", [0, MB])
def test_records_whose_sums_do_not_fit_together_teach_no_rate(read: int) -> None:
    """They count nothing that was sorted, or more than the job has read."""
    record = replace(
        ordered_job("sort", Calibration(sort_bytes_per_core_second=6 * MB)),
        task_seconds=90.0,
        sorts=OrderTotals(1, 0 if read == 0 else 3, 2 * read, 1, 60.0),
        progress=Progress(1, 1, 1, 1, 3, read, MB),
    )
    learned = calibrate([record] * 3, "lab")
    assert learned.encode_bytes_per_core_second == Calibration().encode_bytes_per_core_second
    assert learned.sort_bytes_per_core_second > KB


def test_jobs_that_sort_and_encode_teach_both_rates() -> None:
    truth = Calibration(encode_bytes_per_core_second=8 * MB, sort_bytes_per_core_second=3 * MB, seconds_per_job=11.0)
    encoding, sorting = job_of([24 * MB] * 40, truth), ordered_job("sort", truth)
    assert encoding.finished_ms is not None
    assert sorting.finished_ms is not None
    both = replace(
        sorting,
        task_seconds=encoding.task_seconds + sorting.task_seconds,
        finished_ms=encoding.finished_ms + sorting.finished_ms - 11_000,
        progress=Progress(9, 9, 9, 9, 80, 2 * sorting.progress.bytes_read, 2 * sorting.progress.bytes_written),
    )
    learned = calibrate([both] * 3, "lab")
    assert figures(learned) == pytest.approx(figures(truth), rel=0.01)


def test_jobs_with_several_cores_per_group_are_no_samples() -> None:
    """Else large jobs would be promised for a part of what they take."""
    truth = replace(Calibration(), encode_bytes_per_core_second=3 * Calibration().encode_bytes_per_core_second)
    jobs = [job_of([24 * MB] * 40, truth)] * 10
    assert calibrate(jobs, "lab").encode_bytes_per_core_second > 2 * Calibration().encode_bytes_per_core_second
    few = [replace(job, cores=2 * job.progress.groups_total) for job in jobs]
    assert calibrate(few, "lab").encode_bytes_per_core_second == Calibration().encode_bytes_per_core_second
    alone = [replace(job, options={"max_parallelism": 2}) for job in few]
    assert calibrate(alone, "lab").encode_bytes_per_core_second > 2 * Calibration().encode_bytes_per_core_second


def test_tiny_jobs_are_no_samples_of_speed() -> None:
    tiny = [replace(job_of([20 * KB] * 6, Calibration()), task_seconds=0.02) for _ in range(30)]
    learned = calibrate(tiny, "lab")
    assert learned.encode_bytes_per_core_second == Calibration().encode_bytes_per_core_second
    assert learned.seconds_per_file == Calibration().seconds_per_file


def test_a_slow_start_of_the_engine_does_not_count_as_slow_work() -> None:
    slow_starts = [replace(job_of([20 * KB] * 600, Calibration()), finished_ms=90_000) for _ in range(5)]
    learned = calibrate(slow_starts, "lab")
    assert learned.seconds_per_file == pytest.approx(Calibration().seconds_per_file)
    assert learned.seconds_per_job > 80


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": "another"},
        {"status": JobStatus.FAILED},
        {"error_code": "storage"},
        {"groups_adopted": 1},
        {"task_seconds": 0.0},
    ],
)
def test_jobs_that_did_not_run_their_whole_plan_here_are_no_samples(changes: dict[str, object]) -> None:
    job = job_of(work(random.Random(1)), TRUTHS["a slow machine"])
    others = [replace(job, **changes) for _ in range(5)]  # type: ignore[arg-type]
    assert calibrate(others, "lab") == Calibration()
    assert calibrate([*others, job], "lab").jobs == 1


def test_the_report_says_how_good_estimates_were_and_shows_no_other_tables() -> None:
    mine = [replace(RUN, job_id=str(n), predicted_seconds=90.0 / n) for n in (1, 2, 3)]
    other = replace(RUN, table=TableRef("lake", ("secret",), "events"))
    reported = report([*mine, other], "inline", lambda table: table.namespace == ("db",))
    assert reported.calibration.jobs == 4
    assert [job.job.job_id for job in reported.newest] == ["1", "2", "3"]
    seconds = reported.accuracy[0]
    assert (seconds.quantity, seconds.jobs, seconds.median_ratio) == ("seconds", 3, 2.0)
    assert (seconds.low_ratio, seconds.high_ratio) == (1.0, 3.0)


def test_an_empty_report_has_no_ratios() -> None:
    reported = report([], "inline", lambda _: True)
    assert {(each.jobs, each.median_ratio) for each in reported.accuracy} == {(0, None)}


def test_real_jobs_are_samples(tmp_path: Path) -> None:
    with (
        Warehouse(tmp_path / "lab") as warehouse,
        make_control(warehouse, resources=Resources(2, 1.0, "inline")) as control,
    ):
        table = warehouse.create_table()
        for seed in (1, 2, 3):
            warehouse.append_files(table, 4, 50, seed=seed * 10)
            control.compact(TableRef("lab", ("db",), "events"), PlanOptions(strategy=Strategy.FULL, min_input_files=2))
        reported = control.calibration()
    assert reported.calibration.jobs == 3
    assert reported.calibration.seconds_per_job < Calibration().seconds_per_job
    assert [each.jobs for each in reported.accuracy] == [3, 3, 3]
    assert reported.newest[0].job.predicted_bytes is not None


def test_real_jobs_count_what_they_sort_and_what_they_merge_in_order(warehouse: Warehouse) -> None:
    table = create_sorted_table(warehouse)
    with make_control(warehouse) as control:
        append_claiming(table, [in_order(rows_from(number, 200, step=3)) for number in range(3)])
        merged = control.compact(REF, PlanOptions(strategy=Strategy.FULL, min_input_files=2)).job
        append_claiming(table, [rows_from(number, 200, step=3) for number in range(3)], claim=None)
        sorted_job = control.compact(REF, PlanOptions(sort="table", force=True)).job
    for job, totals, other in (
        (merged, merged.run_merges, merged.sorts),
        (sorted_job, sorted_job.sorts, sorted_job.run_merges),
    ):
        assert (totals.groups, totals.tasks) == (1, 1)
        assert (totals.files, totals.bytes) == (job.progress.files_processed, job.progress.bytes_read)
        assert totals.seconds == pytest.approx(job.task_seconds)
        assert totals.seconds > 0
        assert other == OrderTotals()


def test_records_of_jobs_that_did_not_count_sorts_can_be_read() -> None:
    document = json.loads(JOB.dump_json(RUN))
    del document["sorts"], document["run_merges"]
    assert JOB.validate_python(document) == RUN


@pytest.mark.parametrize("engine", ["inline", "spark", "connect"])
def test_a_plan_is_priced_for_the_engine_that_will_run_it(engine: str, tmp_path: Path) -> None:
    chosen: dict[str, object] = {"engine": "inline"} if engine == "inline" else {"engine": "spark"}
    if engine == "connect":
        chosen["spark"] = {"connect": "sc://host:15002/;token=abcd"}
    chosen_settings = Settings.model_validate(
        {**chosen, "store": {"path": tmp_path / "jobs.db"}, "prices": PriceList()}
    )
    with build_control(chosen_settings) as control:
        assert control.open_engine().resources.name == control.resources.name
        assert control.open_engine().resources.memory_gb == control.resources.memory_gb
        assert "abcd" not in control.resources.name
