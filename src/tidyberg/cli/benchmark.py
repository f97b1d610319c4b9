"""Implements `tidyberg bench`: copies files that a plan would rewrite, rewrites the copy and removes it."""

from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group
from rich.text import Text

from tidyberg.app import build_control, planned_resources
from tidyberg.benchmarking.copy_table import copy_table
from tidyberg.benchmarking.java import measure_java, require_runtime
from tidyberg.benchmarking.runs import Measured, ModeRun, measure_modes
from tidyberg.benchmarking.sample import BenchmarkSample, choose_sample
from tidyberg.benchmarking.scratch import Scratch
from tidyberg.catalog.open import load_table
from tidyberg.cli.as_json import plain
from tidyberg.cli.flags import OptionFlags
from tidyberg.cli.foreground import run_cancellable
from tidyberg.cli.formatting import count, duration, plural
from tidyberg.cli.listing import Listing
from tidyberg.cli.session import Session, engine_label, standard_error
from tidyberg.errors import BadInput
from tidyberg.execute.engine import CancelToken
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Plan
from tidyberg.model.sizes import format_size, parse_size
from tidyberg.record.process import is_alive
from tidyberg.record.records import open_sqlite
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    plan: Plan  # of the original table
    sample: BenchmarkSample
    measured: Measured
    java_seconds: float | None

    def times_as_fast(self, run: ModeRun) -> float | None:
        return self.java_seconds / run.seconds if self.java_seconds is not None else None


def run(
    session: Session, table: str, option: OptionFlags, max_bytes: str, scratch: str | None, against_java: bool
) -> None:
    if against_java:
        require_runtime(session.settings.spark.conf)
    limit = parse_size(max_bytes)
    result = run_cancellable(
        lambda cancel: _measure(session, table, option, limit, scratch, against_java, cancel), standard_error()
    )
    session.show(_shown(session, result), _document(session, result))


def _measure(
    session: Session,
    name: str,
    option: OptionFlags,
    limit: int,
    place: str | None,
    against_java: bool,
    cancel: CancelToken,
) -> BenchmarkResult:
    settings = session.settings
    with build_control(settings) as control:
        ref = resolve_table(settings, control.catalog(session.common.catalog), name)
        options = _options(plan_options(settings, ref, option.overrides()), option)
        plan = control.plan(ref, options)
        if plan.is_empty:
            raise BadInput(f"No file of {ref} needs a rewrite, so there is nothing to measure.")
        source = load_table(control.catalog(session.common.catalog), ref)
    snapshot = source.metadata.snapshot_by_id(plan.snapshot_id or 0)
    assert snapshot is not None, "the plan has groups, so it has a snapshot"
    sample = choose_sample(plan, limit)
    with Scratch(place, source) as scratch:
        _say(session, f"copying {plural(len(sample.files), 'file')}, {format_size(sample.bytes)}, of {ref}")
        document = copy_table(source, snapshot, sample, scratch.io, scratch.location)
        scratch.put(document)
        copied = replace(options, where=None)  # the copy contains only matching files
        with build_control(settings, open_sqlite(scratch.directory / "jobs.db", is_alive).store) as control:
            control.open_catalog = lambda _: scratch.open_catalog()
            measured = measure_modes(
                control, scratch, copied, settings.verify, cancel, lambda words: _say(session, words)
            )
        java = None
        if against_java:
            _say(session, "rewriting: Iceberg's Java action")
            java = measure_java(scratch, document, plan.target_file_size, settings.spark.master, settings.spark.conf)
    return BenchmarkResult(plan, sample, measured, java)


def _options(options: PlanOptions, option: OptionFlags) -> PlanOptions:
    """Rewrites everything unless a strategy is given. Forced, because a copy has no history."""
    strategy = options.strategy if option.strategy else Strategy.FULL
    return replace(options, strategy=strategy, force=True)


def _say(session: Session, words: str) -> None:
    if not session.common.json:
        standard_error().print(words, markup=False)


def _shown(session: Session, result: BenchmarkResult) -> Group:
    grid = Listing()
    for name in (
        "mode",
        "seconds",
        "of it plan",
        "predicted",
        "files",
        "written",
        "MB/s per core",
        "$ per GB",
        "vs Java",
    ):
        grid.add_column(name, justify="left" if name == "mode" else "right")
    for run in result.measured.runs:
        times = result.times_as_fast(run)
        grid.add_row(
            run.mode,
            f"{run.seconds:.2f}",
            f"{run.plan_seconds:.2f}",
            f"{run.predicted_seconds:.2f}",
            f"{count(run.files_read)} → {count(run.files_written)}",
            format_size(run.bytes_written),
            f"{run.mb_per_core_second:.0f}",
            f"{run.compute_dollars_per_gb + run.request_dollars_per_gb:.5f}",
            f"{times:.1f}x" if times is not None else "",
        )
    if result.java_seconds is not None:
        grid.add_row("Java", f"{result.java_seconds:.2f}")
    return Group(Text(_headline(session, result), style="bold"), grid, *_notes(result))


def _headline(session: Session, result: BenchmarkResult) -> str:
    sample = result.sample
    deletes = f" under {plural(len(sample.deletes), 'delete file')}" if sample.deletes else ""
    left_out = (
        f"; {plural(sample.files_left_out, 'more file')} left out by --max-bytes" if sample.files_left_out else ""
    )
    return (
        f"{result.plan.table} · {plural(len(sample.files), 'file')}, {format_size(sample.bytes)}{deletes} copied and "
        f"rewritten on {engine_label(session.settings)}{left_out}"
    )


def _notes(result: BenchmarkResult) -> list[Text]:
    run = result.measured.runs[0]
    notes = [f"{run.mode} wrote {_parts(run)}."]
    whole = sum(file.size for group in result.plan.groups for file in group.files)
    if whole > run.bytes_read:
        seconds = whole / run.bytes_read * run.seconds
        notes.append(f"At this rate the whole plan, {format_size(whole)}, takes {duration(seconds)}.")
    if result.measured.no_copy is not None:
        notes.append(f"No group can be copied: {result.measured.no_copy}.")
    counted = all(run.requests for run in result.measured.runs)
    notes += [
        f"The price includes {'counted' if counted else 'estimated'} requests, but not the storage of replaced files."
    ]
    notes += [
        f"{run.mode}: {plural(groups, 'group')} encoded instead: {why}"
        for run in result.measured.runs
        for why, groups in run.encoded_instead.items()
    ]
    notes.append("The copy is removed. The table was only read.")
    return [Text(note) for note in notes]


def _parts(run: ModeRun) -> str:
    parts = {
        "copied as row groups": run.bytes_copied,
        "spliced as pages": run.bytes_spliced,
        "encoded": run.bytes_encoded,
    }
    return ", ".join(f"{format_size(size)} {how}" for how, size in parts.items() if size) or "nothing"


def _document(session: Session, result: BenchmarkResult) -> dict[str, Any]:
    resources = planned_resources(session.settings)
    return {
        "table": str(result.plan.table),
        "snapshot_id": result.plan.snapshot_id,
        "files": len(result.sample.files),
        "bytes": result.sample.bytes,
        "delete_files": len(result.sample.deletes),
        "files_left_out": result.sample.files_left_out,
        "target_file_size": result.plan.target_file_size,
        "engine": resources.name,
        "cores": resources.cores,
        "runs": [{**plain(run), "times_as_fast_as_java": result.times_as_fast(run)} for run in result.measured.runs],
        "no_copy": result.measured.no_copy,
        "java_seconds": result.java_seconds,
    }
