"""Which memory a function needs for a compaction, what that costs, and whether Lambda is the right place.

`LambdaCostOptimizer` has fixed tiers. `MeasuredCostOptimizer` uses what the installation has measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from tidyberg.model.options import Calibration, Prices
from tidyberg.model.sizes import GB, MB
from tidyberg.serverless.limits import LARGEST_MEMORY_MB, LONGEST_SECONDS, cores_of

DOLLARS_PER_REQUEST = 0.20 / 1_000_000
_LIMIT = timedelta(minutes=15)
_SPORADIC = timedelta(hours=1)
_MOST_BYTES = 10 * GB
TIERS_MB = (512, 1024, 1769, 2048, 3008, 3538, 5307, 7076, LARGEST_MEMORY_MB)
_BASE_MB = 320  # Python, Arrow and PyIceberg, and the manifests of a plan
_SMALLEST_TASK_MB = 96  # with smaller row groups


@dataclass(frozen=True)
class CompactionTask:
    """A compaction that somebody has to run again and again."""

    total_size: int  # bytes
    estimated_duration: timedelta
    frequency: timedelta  # how long it is between two runs


class LambdaCostOptimizer:
    """Chooses by size alone. The numbers are a contract."""

    @staticmethod
    def calculate_optimal_memory(data_size: int) -> int:
        """Return the memory in MB."""
        if data_size < 100 * MB:
            return 512
        if data_size < 500 * MB:
            return 1024
        if data_size < 1000 * MB:
            return 2048
        return 3008

    @staticmethod
    def should_use_lambda(task: CompactionTask) -> bool:
        is_sporadic = task.frequency < _SPORADIC
        size_appropriate = task.total_size < _MOST_BYTES
        return task.estimated_duration < _LIMIT and (is_sporadic or size_appropriate)


@dataclass(frozen=True)
class FunctionEstimate:
    """What a compaction takes on a function of one size."""

    memory_mb: int
    seconds: float  # of all invocations together
    invocations: int
    dollars: float
    refusal: str | None = None  # why this size cannot do it


@dataclass(frozen=True)
class MeasuredCostOptimizer:
    """Chooses by the measured speed. Memory buys cores, so more of it is faster and, up to a point, not dearer.

    Encoding is as fast as the share of a core that the function has. A task has one core, so more cores than groups
    are idle, and paid for. A compaction that does not end in one invocation continues in the next, and pays for the
    start again.
    """

    calibration: Calibration
    prices: Prices
    timeout_seconds: float = LONGEST_SECONDS
    reserve_seconds: float = 10.0

    def estimates(self, group_sizes: Sequence[int], files: int) -> list[FunctionEstimate]:
        return [self.estimate(memory_mb, group_sizes, files) for memory_mb in TIERS_MB]

    def best(self, group_sizes: Sequence[int], files: int) -> FunctionEstimate | None:
        """Return the fastest of the sizes within 10 % of the lowest price. None: no size can do it."""
        possible = [each for each in self.estimates(group_sizes, files) if each.refusal is None]
        if not possible:
            return None
        cheapest = min(each.dollars for each in possible)
        return min((each for each in possible if each.dollars <= cheapest * 1.1), key=lambda each: each.seconds)

    def estimate(self, memory_mb: int, group_sizes: Sequence[int], files: int) -> FunctionEstimate:
        cores, speed = cores_of(memory_mb), self.calibration
        at_once = max(1, min(round(cores), len(group_sizes)))
        of_one = min(1.0, cores / at_once)  # the share of a core that a task has
        per_group = [size / speed.encode_bytes_per_core_second for size in group_sizes]
        opening = files * speed.seconds_per_file
        work = (sum(per_group) + opening) / (of_one * at_once)
        longest = max(per_group, default=0.0) / of_one
        start = speed.seconds_per_job / min(1.0, cores)
        usable = self.timeout_seconds - self.reserve_seconds - start
        working = max(work, longest)
        invocations = max(1, ceil(working / usable)) if usable > 0 else 1
        seconds = working + invocations * start
        compute = seconds * memory_mb / 1024 * self.prices.compute_per_gb_second
        dollars = compute + invocations * DOLLARS_PER_REQUEST
        refusal = None
        if memory_mb < _BASE_MB + at_once * _SMALLEST_TASK_MB:
            refusal = "too little memory for a task"
        elif longest > usable:
            refusal = "its largest group takes longer than an invocation"
        return FunctionEstimate(memory_mb, seconds, invocations, dollars, refusal)

    def should_use_lambda(self, group_sizes: Sequence[int], files: int, cluster_dollars: float) -> bool:
        """Returns True if some size can do it, and is cheaper than the same job on the cluster."""
        best = self.best(group_sizes, files)
        return best is not None and best.dollars < cluster_dollars
