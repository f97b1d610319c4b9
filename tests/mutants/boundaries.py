"""Boundaries: which rows lie on which side, which files straddle, what is left out, and that once is enough."""

from tests.mutants.mutant import Mutant

KERNEL = ("tests/execute/order/test_segments.py",)
SPANS = ("tests/planning/test_segments.py",)
PLANS = ("tests/planning/test_boundary_sorting.py",)
TEXTS = ("tests/planning/test_boundary_text.py",)
TABLES = ("tests/control/test_boundary_sorts.py",)
PROOFS = ("tests/verify/test_boundaries.py",)
VALUES = ("tests/planning/workload/test_boundary_values.py",)

BOUNDARIES = (
    Mutant(
        "a row that equals a boundary lies with greater values",
        "execute/kernel/order/segments.py",
        "return less if first.descending else not_greater",
        "return not_greater if first.descending else less",
        KERNEL,
    ),
    Mutant(
        "boundaries descend if the key does",
        "execute/kernel/order/segments.py",
        "boundaries[::-1] if field.descending else boundaries",
        "boundaries",
        KERNEL,
    ),
    Mutant(
        "the ranges of a segment follow those of the segment before it",
        "execute/kernel/order/segments.py",
        "first += bounds.ranges",
        "first += 0",
        KERNEL,
    ),
    Mutant(
        "outputs of a task end at boundaries",
        "execute/kernel/sort.py",
        "if segments[start] != self._segment:",
        "if self._segment < 0:",
        TABLES,
    ),
    Mutant(
        "reduce tasks of a shuffle end at boundaries",
        "execute/tasks/range_sort.py",
        "_at_boundaries(task, sample, ranges) if task.boundaries else _equally(task, sample, ranges)",
        "_equally(task, sample, ranges)",
        TABLES,
    ),
    Mutant(
        "a file that begins with a boundary does not straddle it, and a file that ends with it does",
        "planning/segments.py",
        'np.searchsorted(cuts, ranks, side="right") for ranks in (lower, upper)',
        'np.searchsorted(cuts, ranks, side="left") for ranks in (lower, upper)',
        SPANS,
    ),
    Mutant(
        "a file without bounds may straddle every boundary",
        "planning/segments.py",
        "np.where(known, last, count)",
        "np.where(known, last, 0)",
        SPANS,
    ),
    Mutant(
        "files without values straddle nothing",
        "planning/segments.py",
        "(self.first < self.last) & self.has_values",
        "(self.first < self.last)",
        SPANS,
    ),
    Mutant(
        "a boundary is left out if a segment would be small",
        "planning/segments.py",
        "touched & (content < least)",
        "touched & (content < 0)",
        SPANS,
    ),
    Mutant(
        "files between which others lie are sorted apart",
        "planning/segments.py",
        "(begin > reach) & (between > 0)",
        "(begin > reach) & (between < 0)",
        PLANS,
    ),
    Mutant(
        "only files that straddle are taken",
        "planning/boundary_sorting.py",
        "safe = straddling & (self.candidates.hazards[files] == Hazard.NONE)",
        "safe = self.candidates.hazards[files] == Hazard.NONE",
        PLANS,
    ),
    Mutant(
        "files of a job with the same boundaries are not cut again [I10]",
        "planning/boundary_sorting.py",
        "straddling = straddles & ~self._done[files]",
        "straddling = straddles",
        PLANS,
    ),
    Mutant(
        "texts that manifests cut are no boundaries",
        "planning/boundary_sorting.py",
        "boundary.characters <= longest",
        "True",
        PLANS,
    ),
    Mutant(
        "the snapshot of a plan with boundaries records them",
        "commit/snapshot.py",
        "{} if self.boundaries is None else {BOUNDARIES: self.boundaries}",
        "{}",
        TABLES,
    ),
    Mutant(
        "both zeros lie on one side of a boundary",
        "planning/boundary_text.py",
        '(-0.0, "0.0") if isinstance(value, float) and value == 0 else (value, shown)',
        "(value, shown)",
        TEXTS,
    ),
    Mutant(
        "an output that reaches over a boundary fails its group",
        "verify/boundaries.py",
        ">= value)",
        "> value)",
        PROOFS,
    ),
    Mutant(
        "an upper bound that was cut accuses nobody",
        "verify/boundaries.py",
        "_before_cut(highest) if leaf.may_be_cut else highest",
        "highest",
        PROOFS,
    ),
    Mutant(
        "a lower bound that was cut accuses nobody",
        "verify/boundaries.py",
        "lowest < value and not (leaf.may_be_cut and value.startswith(lowest))",
        "lowest < value",
        PROOFS,
    ),
    Mutant(
        "a range that ends with a number ends before the next one",
        "planning/workload/boundary_values.py",
        "moved = _next(value, kind) if after else value",
        "moved = value",
        VALUES,
    ),
)
