"""Says what a plan leaves alone, why and until when, and how a job ends that commits nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tidyberg.model.plan import PartitionVerdict, Plan, Skip
from tidyberg.model.words import plural

# The outcome of a finished job. "tidy": no file needs a rewrite. "waiting": some files will be rewritten later.
# "refused": some files cannot or must not be rewritten. "partly": the job failed after its first commit.
Outcome = Literal["committed", "partly", "tidy", "waiting", "refused"]
Disposition = Literal["tidy", "waiting", "refused"]

_TIDY = frozenset(("tidy", "empty", "no-gain"))
_FILTERED = "filtered"
# When waiting files will be rewritten.
_LIMIT = "limit"
_UNTIL = {
    "hot": "once the partition has cooled, or enough of its files are older than the hot window",
    "too-few-files": "when there are as many as min_input_files",
    "compacted": "when something is written to the partition",
    "budget": "by another job, or with a higher max_cost",
    _LIMIT: "by the next job",
    "group-size": "by a job with a larger max_group_size",
    "other-strategy": "by a job with another strategy",
    _FILTERED: "by a job whose filter selects them",
}

# A plan that takes nothing at all within max_files would be the same in the next job.
_UNTIL_LIMIT_IS_HIGHER = "by a job with a higher max_files"

_TAKE_NOW: Mapping[str, dict[str, Any]] = {
    "hot": {"force": True},
    "too-few-files": {"force": True},
    "compacted": {"force": True},
    "budget": {"max_cost": None},
    _LIMIT: {},
    "group-size": {"max_group_size": None},
    "other-strategy": {"strategy": "auto"},
    _FILTERED: {"where": None},
    "wap-branch": {"ignore_wap_branches": True},
}


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """The partitions that a plan left alone for one reason."""

    disposition: Literal["waiting", "refused"]
    code: str  # the verdict's code, which is stable
    partitions: int
    files: int
    bytes: int  # the size of the partitions
    reason: str  # the reason of the partition with the most files
    until: str | None = None  # when the files will be rewritten; None: not while the reason holds

    @property
    def take_now(self) -> dict[str, Any] | None:
        """The options of a job that rewrites the files now. None means that no options do."""
        return {"max_files": None} if self.until == _UNTIL_LIMIT_IS_HIGHER else _TAKE_NOW.get(self.code)

    def __str__(self) -> str:
        found = f"{plural(self.files, 'file')} of {plural(self.partitions, 'partition')}"
        until = f"; taken {self.until}" if self.until else ""
        return f"{self.disposition}: {found}: {self.reason}{until}"


def disposition(verdict: Skip) -> Disposition | None:
    """Classify a skipped partition. None means that the filter does not select it."""
    if verdict.code == _FILTERED:
        return None
    return "tidy" if verdict.code in _TIDY else "waiting" if verdict.code in _UNTIL else "refused"


def left_alone(plan: Plan) -> tuple[LeftAlone, ...]:
    """Return what waits, then what is refused, ordered by files. Partitions outside the filter are left out."""
    found: dict[str, LeftAlone] = {}
    for row in _by_files(plan.partitions):
        for code, files, reason in _waiting(row):
            known = found.get(code)
            if known is None:
                kind = disposition(Skip(code, reason))
                assert kind in ("waiting", "refused")
                until = _UNTIL_LIMIT_IS_HIGHER if code == _LIMIT and plan.is_empty else _UNTIL.get(code)
                found[code] = LeftAlone(kind, code, 1, files, row.bytes, reason, until)
                continue
            found[code] = replace(
                known, partitions=known.partitions + 1, files=known.files + files, bytes=known.bytes + row.bytes
            )
    if not found and _selects_nothing(plan):
        found[_FILTERED] = LeftAlone(
            "waiting",
            _FILTERED,
            len(plan.partitions),
            sum(row.files for row in plan.partitions),
            sum(row.bytes for row in plan.partitions),
            "the filter selects none of the partitions",
            _UNTIL[_FILTERED],
        )
    return tuple(sorted(found.values(), key=lambda left: (left.disposition == "refused", -left.files, left.code)))


def outcome_without_commit(left: Sequence[LeftAlone]) -> Disposition:
    kinds = {each.disposition for each in left}
    return "waiting" if "waiting" in kinds else "refused" if kinds else "tidy"


def _by_files(partitions: Sequence[PartitionVerdict]) -> list[PartitionVerdict]:
    return sorted(partitions, key=lambda row: (-row.files, row.spec_id, row.partition_path))


def _waiting(row: PartitionVerdict) -> list[tuple[str, int, str]]:
    """Return the code, the number of files and the reason for what one partition leaves alone."""
    verdict = row.verdict
    if isinstance(verdict, Skip):
        return [(verdict.code, row.files, verdict.reason)] if disposition(verdict) in ("waiting", "refused") else []
    return [(rest.code, rest.files, rest.reason) for rest in verdict.rest]


def _selects_nothing(plan: Plan) -> bool:
    verdicts = [row.verdict for row in plan.partitions]
    return bool(verdicts) and all(isinstance(each, Skip) and each.code == _FILTERED for each in verdicts)
