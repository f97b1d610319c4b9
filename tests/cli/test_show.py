"""Text output of hand-made values."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.console import rendered
from tidyberg.cli.formatting import ago, dollars, duration, plural, short_id
from tidyberg.cli.show_doctor import Check, show_checks
from tidyberg.cli.show_health import show_health, show_tables
from tidyberg.cli.show_jobs import show_jobs
from tidyberg.cli.show_plan import SHOWN_PARTITIONS, show_groups, show_plan
from tidyberg.cli.show_result import show_result
from tidyberg.cli.show_sizes import bucket_label, show_histogram, size_buckets
from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.job import CompactionStats, CopyTotals, Job, JobStatus, SpliceTotals, Stage
from tidyberg.model.left import left_alone
from tidyberg.model.plan import Estimate, FileGroup, InputFile, PartitionVerdict, Plan, Rewrite, Skip, Verdict
from tidyberg.model.report import CompactionResult, Health, HealthReport, TableSummary
from tidyberg.model.sizes import GB, KB, MB
from tidyberg.model.table import TableRef

NOW = 1_763_000_000_000
EVENTS = TableRef("lab", ("analytics",), "events")


def verdict_of(path: str, files: int, verdict: Verdict, deletes: int = 0, score: float = 0.5) -> PartitionVerdict:
    return PartitionVerdict(
        spec_id=0, partition_path=path, files=files, small_files=files, bytes=files * 2 * MB, records=files * 10,
        delete_files=deletes, deleted_rows=0, fragment_ratio=0.0, score=score, last_write_ms=NOW,
        last_compaction_ms=None, recent_commits=1, verdict=verdict,
    )  # fmt: skip


ESTIMATE = Estimate(
    input_files=600, output_files=4, bytes_read=1200 * MB, bytes_written=1000 * MB, get_requests=1200, put_requests=4,
    seconds=38.2, request_dollars=0.001, compute_dollars=0.0031, storage_dollars=0.02, file_opens_saved=596,
    bytes_saved=200 * MB, payback_scans=9,
)  # fmt: skip


def make_plan(partitions: tuple[PartitionVerdict, ...], groups: tuple[FileGroup, ...] = ()) -> Plan:
    return Plan(
        format=1, tool_version="1", table=EVENTS, table_uuid="u", format_version=2, branch="main",
        snapshot_id=4821000000000009907, sequence_number=7, snapshot_ms=NOW - 120_000, schema_id=0, created_ms=NOW,
        options={}, resolved_where=None, target_file_size=512 * MB, health=41, partitions=partitions, groups=groups,
        estimate=ESTIMATE, hash="7f3a09c2ffff",
    )  # fmt: skip


GROUPS = tuple(
    FileGroup(
        n,
        0,
        path,
        tuple(InputFile(f"f{i}", 2 * MB, 10, 1, "m") for i in range(3)),
        2,
        "encode",
        0.9,
        ESTIMATE,
        mode_reason="small row groups",
    )
    for n, path in enumerate(("day=2026-11-13", "day=2026-11-12"))
)
PARTITIONS = (
    verdict_of("day=2026-11-14", 96, Skip("hot", "hot: 4 commits in the last 10 min, cools 02:10 UTC")),
    verdict_of("day=2026-11-12", 312, Rewrite("many small files", (1,), 312, 2, 0.0007), score=0.7),
    verdict_of("day=2026-11-13", 288, Rewrite("many small files", (0,), 288, 2, 0.0006), deletes=3, score=0.9),
    verdict_of("city=S%C3%A3o+Paulo", 1, Skip("tidy", "already tidy")),
)


def shown_plan(plan: Plan, **more: Any) -> str:
    return rendered(show_plan(plan, now_ms=NOW, engine="local[2]", next_command="tidyberg compact x", **more))


def test_a_plan_reads_from_the_table_to_the_next_command() -> None:
    lines = shown_plan(make_plan(PARTITIONS, GROUPS)).splitlines()
    assert lines[0].startswith("analytics.events · main @ 4821…9907 (2 min ago)")
    assert lines[0].endswith("health 41/100")
    assert lines[1].startswith("697 files · 1.4 GB · 4 partitions · average 2 MB, target 512 MB")
    cells = [" ".join(line.split()) for line in lines]
    assert cells[3] == "partition files small deletes verdict"
    assert cells[4] == "day=2026-11-13 288 288 3 rewrite 288 → 2 encode $0.0006"
    assert cells[5] == "day=2026-11-12 312 312 – rewrite 312 → 2 encode $0.0007"
    assert "day=2026-11-14 96 96 – skip hot: 4 commits in the last 10 min, cools 02:10 UTC" in cells
    assert "city=São Paulo 1 1 – skip already tidy" in cells
    assert (
        "rewrite 600 files into 4 · read 1.2 GB, write 1000 MB · about 38 s on local[2] · $0.0041 ($0.0035/GB)" in cells
    )
    assert "2 groups encoded (small row groups)" in cells
    assert "saves 596 file opens and 200 MB per full scan; pays back after 9 scans" in cells
    assert "the replaced files cost $0.0200 more in storage until their snapshots expire" in cells
    assert cells[-1] == "plan 7f3a09c2 · next: tidyberg compact x"


def test_empty_plan_has_no_next_command() -> None:
    text = shown_plan(dataclasses.replace(make_plan(PARTITIONS[3:]), health=100))
    assert "nothing to do, it is tidy" in text
    assert "next:" not in text


def test_plan_that_leaves_files_is_not_called_tidy_and_shows_the_command_for_them() -> None:
    text = shown_plan(make_plan(PARTITIONS[:1]), take_now=lambda options: f"tidyberg compact x {options}")
    assert "96 files wait, nothing is rewritten" in text
    assert "waiting: 96 files of 1 partition: hot: 4 commits in the last 10 min, cools 02:10 UTC; taken once" in text
    assert "to rewrite it now: tidyberg compact x {'force': True}" in text
    assert "tidy" not in text.replace("tidyberg", "")
    refused = verdict_of("", 30, Skip("format", "30 files not in Parquet"))
    text = shown_plan(make_plan((refused,)), take_now=str)
    assert "30 files cannot be rewritten" in text
    assert "refused: 30 files of 1 partition: 30 files not in Parquet" in text
    assert "to rewrite it now" not in text


def test_tidy_selection_does_not_make_the_table_tidy() -> None:
    unselected = verdict_of("day=2026-11-12", 312, Skip("filtered", "not selected by the filter"))
    assert "what the filter selects is tidy" in shown_plan(make_plan((PARTITIONS[3], unselected)))
    assert "312 files wait" in shown_plan(make_plan((unselected,)))
    assert "rewriting data files would not improve this table" in shown_plan(make_plan(PARTITIONS[3:]))


def test_an_empty_table_has_a_plan_too() -> None:
    plan = dataclasses.replace(make_plan(()), snapshot_id=None, snapshot_ms=None)
    assert "main @ no snapshot" in shown_plan(plan)


def test_long_plans_are_cut_without_all() -> None:
    plan = make_plan(tuple(verdict_of(f"n={n}", 5, Skip("tidy", "already tidy")) for n in range(20)))
    assert f"… {20 - SHOWN_PARTITIONS} more (--all)" in shown_plan(plan)
    assert "more (--all)" not in shown_plan(plan, show_all=True)
    assert "n=19" in shown_plan(plan, show_all=True)


def test_plan_shows_what_the_budget_excluded_and_the_resolved_filter() -> None:
    plan = dataclasses.replace(
        make_plan(PARTITIONS, GROUPS),
        left_out=("day=2026-11-10: over max_cost",),
        resolved_where="day >= '2026-11-08'",
        estimate=dataclasses.replace(ESTIMATE, payback_scans=None, bytes_saved=-5),
    )
    text = shown_plan(plan)
    assert "not in this plan: day=2026-11-10: over max_cost" in text
    assert "where day >= '2026-11-08'" in text
    assert "saves 596 file opens per full scan; does not pay back" in text


def test_groups_are_listed_as_they_would_run() -> None:
    rows = [" ".join(line.split()) for line in rendered(show_groups(make_plan(PARTITIONS, GROUPS))).splitlines()]
    assert rows[1] == "0 day=2026-11-13 3 30 6 MB 2 encode small row groups 0.90 $0.0041"


def test_modes_are_counted_by_their_reasons() -> None:
    copied = [dataclasses.replace(group, mode="copy", mode_reason="large row groups") for group in (*GROUPS, GROUPS[0])]
    text = shown_plan(make_plan(PARTITIONS, (*GROUPS, *copied)))
    assert "3 groups copied (large row groups) · 2 groups encoded (small row groups)" in text


STATS = CompactionStats(12, 2, 11, 11, 20 * MB, 16 * MB, 4 * MB, 0, 2340.56, 1)
JOB = Job(
    job_id="550e8400-e29b", table=EVENTS, table_uuid="u", branch="main", strategy="auto", options={},
    status=JobStatus.SUCCEEDED, stage=Stage.DONE, engine="inline", created_ms=NOW, started_ms=NOW,
    finished_ms=NOW + 2340, stats=STATS, snapshot_id=5, predicted_dollars=0.001, actual_dollars=0.002,
)  # fmt: skip
RESULT = CompactionResult(
    outcome="committed", job=JOB, plan=make_plan(PARTITIONS, GROUPS), stats=STATS, snapshot_id=5, groups_committed=1,
    groups_left=("group 3: a new delete arrived",), sizes_before=(MB,) * 12, sizes_after=(MB, 15 * MB),
)  # fmt: skip


def test_result_shows_copied_groups_encoded_groups_requests_and_memory() -> None:
    copied = CopyTotals(
        groups=2, files=9, bytes=30 * MB, bytes_moved=28 * MB, encoded_instead={"columns were dropped": 1, "INT96": 3}
    )
    spliced = SpliceTotals(groups=1, files=12, bytes=44 * MB, bytes_spliced=41 * MB)
    job = dataclasses.replace(
        JOB, copied=copied, spliced=spliced, requests={"part_copy": 1200, "get": 9}, worker_memory_bytes=300 * MB
    )
    text = rendered(show_result(dataclasses.replace(RESULT, job=job)))
    assert "2 groups copied, 30 MB, 28 MB of it inside the store" in text
    assert "1 group encoded in part: 41 MB of 44 MB moved without decoding" in text
    assert "3 groups encoded instead of copied: INT96" in text
    assert "1 group encoded instead of copied: columns were dropped" in text
    assert "requests: 9 get, 1,200 part_copy" in text
    assert "memory: 300 MB in the largest worker" in text
    assert not any(word in rendered(show_result(RESULT)) for word in ("copied", "in part", "memory"))


def test_a_result_shows_before_and_after() -> None:
    text = rendered(show_result(RESULT))
    assert "✓ analytics.events · main @ 5 · 1 group committed in 2.3 s · job 550e8400" in text
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "files 12 2" in rows
    assert "live bytes 20 MB 16 MB" in rows
    assert "11 files replaced · 4 MB less to read · cost $0.0020 (predicted $0.0010)" in rows
    assert "left: group 3: a new delete arrived" in rows


def test_result_without_a_commit_shows_why() -> None:
    plan = dataclasses.replace(make_plan(PARTITIONS[3:]), health=97)
    nothing = dataclasses.replace(RESULT, outcome="tidy", groups_left=(), plan=plan)
    assert rendered(show_result(nothing)) == "analytics.events: nothing to do, it is tidy\n"


def test_result_shows_waiting_files_also_after_a_commit() -> None:
    left = left_alone(RESULT.plan)
    reported = "waiting: 96 files of 1 partition: hot: 4 commits"
    job = dataclasses.replace(JOB, notes=tuple(map(str, left)), left=left)
    text = rendered(
        show_result(dataclasses.replace(RESULT, left=left, job=job), lambda _: "tidyberg compact x --force")
    )
    assert text.count(reported) == 1
    assert "to rewrite it now: tidyberg compact x --force" in text
    waits = dataclasses.replace(RESULT, outcome="waiting", left=left, job=job, plan=make_plan(PARTITIONS[:1]))
    lines = rendered(show_result(waits)).splitlines()
    assert lines[0] == "analytics.events: 96 files wait, nothing is rewritten (health 41/100)"
    assert lines[1].startswith(reported)
    assert reported in rendered(show_jobs([dataclasses.replace(job, snapshot_id=None)], timezone="UTC"), width=300)


def test_result_shows_live_bytes_storage_and_delete_files() -> None:
    """A rewrite makes the table smaller, but storage grows until snapshots expire."""
    stats = dataclasses.replace(
        STATS, delete_files_before=7, delete_files_after=0, bytes_freed_at_expiry=19 * MB, small_files_remaining=6
    )
    text = rendered(show_result(dataclasses.replace(RESULT, stats=stats, sizes_written=(15 * MB,))))
    assert "storage: 15 MB written now; the 19 MB replaced are freed when older snapshots expire" in text
    assert "delete files 7 0" in [" ".join(line.split()) for line in text.splitlines()]
    assert "6 small files left" in text
    assert "small file" not in rendered(show_result(RESULT)).split("replaced")[1]


@given(st.lists(st.integers(0, 4 * GB), min_size=1))
def test_a_histogram_counts_every_file_once(sizes: list[int]) -> None:
    assert sum(size_buckets(sizes)) == len(sizes)
    text = rendered(show_histogram(sizes, sizes))
    labels = [bucket_label(n) for n, files in enumerate(size_buckets(sizes)) if files]
    assert all(label in text for label in labels)


def test_sizes_at_an_edge_belong_to_the_upper_range() -> None:
    assert size_buckets([64 * KB - 1, 64 * KB, GB])[:2] == [1, 1]
    assert size_buckets([GB])[-1] == 1


def test_health_shows_score_reasons_and_worst_partitions() -> None:
    numbers = PartitionStatistics(0, 9, 9, 9 * MB, 90, 0, 0, 0.0, NOW - 7_200_000, None, 0)
    report = HealthReport(
        EVENTS, "main", 5, NOW, Health(30, ("9 of 9 files are small",)), 9, 9, 9 * MB, 90, 0,
        tuple((f"p={n}", numbers) for n in range(12)), (MB,) * 9, 512 * MB,
    )  # fmt: skip
    text = rendered(show_health(report, now_ms=NOW, next_command="tidyberg plan x"))
    for part in ("health 30/100", "  9 of 9 files are small", "2 h ago", "… 2 more (--all)", "next: tidyberg plan x"):
        assert part in text
    tidy = dataclasses.replace(report, health=Health(100, ()), partitions=(), file_sizes=())
    assert "no problems found" in rendered(show_health(tidy, now_ms=NOW, next_command="x"))


def test_tables_show_what_is_known_and_what_failed() -> None:
    known = TableSummary(EVENTS, 10, 10 * MB, 1000, 0, NOW - 60_000)
    unknown = TableSummary(EVENTS, None, None, None, None, None)
    broken = TableSummary(EVENTS, None, None, None, None, None, error="metadata is missing")
    rows = [" ".join(row.split()) for row in rendered(show_tables([known, unknown, broken], now_ms=NOW)).splitlines()]
    assert rows[1] == "analytics.events 10 10 MB 1 MB 1,000 0 1 min ago"
    assert rows[2] == "analytics.events – – – – – never"
    assert "metadata is missing" in rows[3]
    assert rendered(show_tables([], now_ms=NOW)) == "no tables\n"


def test_history_shows_results_and_reasons() -> None:
    failed = dataclasses.replace(
        JOB, status=JobStatus.FAILED, stage=Stage.COMMIT, stats=None, error="someone was first", finished_ms=None
    )
    idle = dataclasses.replace(JOB, snapshot_id=None, actual_dollars=None)
    running = dataclasses.replace(JOB, status=JobStatus.RUNNING, stage=Stage.EXECUTE, stats=None)
    text = rendered(show_jobs([JOB, failed, idle, running], timezone="Europe/Berlin"), width=200)
    assert "2025-11-13 03:13:20" in text
    for part in (
        "11 of 12 files rewritten, 2 now; 20 MB → 16 MB",
        "commit: someone was first",
        "nothing to do",
        "execute",
    ):
        assert part in text
    assert rendered(show_jobs([], timezone="UTC")) == "no jobs are recorded\n"


def test_doctor_shows_the_fix() -> None:
    text = rendered(
        show_checks([Check("ok", "Python", "3.11"), Check("fail", "Java", "not found", "Install Java 17.")])
    )
    assert "→ Install Java 17." in text
    assert "1 of 2 checks failed" in text
    assert "ready, with 1 warning" in rendered(show_checks([Check("warn", "disk", "little")]))
    assert rendered(show_checks([Check("ok", "disk", "much")])).rstrip().endswith("ready")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (dollars(0), "$0.0000"), (dollars(0.00001), "<$0.0001"), (dollars(0.0041), "$0.0041"),
        (dollars(1234.5), "$1,234.50"),
        (duration(2.34), "2.3 s"), (duration(38), "38 s"), (duration(250), "4 min 10 s"), (duration(7200), "2 h"),
        (duration(7500), "2 h 5 min"), (duration(180), "3 min"),
        (ago(None, NOW), "never"), (ago(NOW + 5, NOW), "just now"), (ago(NOW - 40_000, NOW), "40 s ago"),
        (ago(NOW - 3_600_000, NOW), "1 h ago"), (ago(NOW - 90_000_000, NOW), "25 h ago"),
        (ago(NOW - 200_000_000, NOW), "2 days ago"),
        (plural(1, "file"), "1 file"), (plural(1204, "file"), "1,204 files"),
        (short_id(None), "no snapshot"), (short_id(12345), "12345"),
    ],
)  # fmt: skip
def test_numbers_and_times_are_readable(words: str, expected: str) -> None:
    assert words == expected
