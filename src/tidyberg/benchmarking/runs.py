"""Rewrites a copied table in each mode and measures the time."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidyberg.benchmarking.scratch import REF, Scratch
from tidyberg.control.control import Control
from tidyberg.errors import BadInput
from tidyberg.execute.engine import CancelToken
from tidyberg.model.options import PlanOptions, RewriteMode, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.sizes import GB, MB
from tidyberg.planning.price import request_dollars


@dataclass(frozen=True, slots=True)
class ModeRun:
    """One run in one mode, from plan to commit, in a warm session."""

    mode: str
    groups_copied: int
    groups_encoded: int
    encoded_instead: Mapping[str, int]  # groups planned as copies, by the reason why they were encoded
    seconds: float
    plan_seconds: float
    predicted_seconds: float
    files_read: int
    files_written: int
    bytes_read: int
    bytes_written: int
    # Parts of bytes_written: copied row groups, spliced pages and encoded rows.
    bytes_copied: int
    bytes_spliced: int
    bytes_encoded: int
    mb_per_core_second: float
    compute_dollars_per_gb: float
    requests: Mapping[str, int]  # of the tasks, if the storage counts them
    request_dollars_per_gb: float  # of counted requests, or from the model of the plan


@dataclass(frozen=True, slots=True)
class Measured:
    runs: tuple[ModeRun, ...]  # the first is `auto`, the default mode
    no_copy: str | None = None  # why no group can be copied


def measure_modes(
    control: Control,
    scratch: Scratch,
    options: PlanOptions,
    verify: VerifyMode,
    cancel: CancelToken,
    say: Callable[[str], None],
) -> Measured:
    plans = {mode: control.plan(REF, replace(options, mode=mode)) for mode in (RewriteMode.COPY, RewriteMode.ENCODE)}
    if plans[RewriteMode.ENCODE].is_empty:
        raise BadInput("The copied files need no rewrite.", hint="Copy more files with --max-bytes.")
    reasons = {group.mode_reason for group in plans[RewriteMode.COPY].groups if group.mode == "copy"}
    obstacles = [group.mode_reason for group in plans[RewriteMode.COPY].groups if group.mode != "copy"]
    modes = [RewriteMode.AUTO, *([RewriteMode.COPY] if reasons else []), RewriteMode.ENCODE]
    say("warming up")
    _measure(control, replace(options, mode=modes[0]), verify, cancel)
    runs = []
    for mode in modes:
        scratch.reset()
        say(f"rewriting: {mode.value}")
        runs.append(_measure(control, replace(options, mode=mode), verify, cancel))
    return Measured(tuple(runs), None if reasons else (obstacles or ["nothing can be copied"])[0])


def _measure(control: Control, options: PlanOptions, verify: VerifyMode, cancel: CancelToken) -> ModeRun:
    started = time.perf_counter()
    plan = control.plan(REF, options)
    planned = time.perf_counter()
    result = control.apply(plan, verify=verify, cancel=cancel)
    ended = time.perf_counter()
    if result.outcome != "committed":
        raise BadInput(f"The copy was not rewritten: {'; '.join(result.groups_left) or result.outcome}.")
    return _mode_run(control, result, ended - started, planned - started)


def _mode_run(control: Control, result: CompactionResult, seconds: float, plan_seconds: float) -> ModeRun:
    plan, job = result.plan, result.job
    gigabytes = plan.estimate.bytes_read / GB
    compute = seconds * control.resources.memory_gb * control.prices.compute_per_gb_second
    requests = request_dollars(job.requests, control.prices) if job.requests else plan.estimate.request_dollars
    written, encoded_groups = sum(result.sizes_written), len(plan.groups) - job.copied.groups
    moved = job.copied.bytes + job.spliced.bytes_spliced
    return ModeRun(
        mode=str(plan.options["mode"]),
        groups_copied=job.copied.groups,
        groups_encoded=encoded_groups,
        encoded_instead=dict(job.copied.encoded_instead),
        seconds=seconds,
        plan_seconds=plan_seconds,
        predicted_seconds=plan.estimate.seconds,
        files_read=plan.estimate.input_files,
        files_written=len(result.sizes_written),
        bytes_read=plan.estimate.bytes_read,
        bytes_written=written,
        bytes_copied=job.copied.bytes,
        bytes_spliced=job.spliced.bytes_spliced,
        bytes_encoded=max(0, written - moved) if encoded_groups else 0,
        mb_per_core_second=plan.estimate.bytes_read / MB / seconds / control.resources.cores,
        compute_dollars_per_gb=compute / gigabytes,
        requests=dict(job.requests),
        request_dollars_per_gb=requests / gigabytes,
    )
