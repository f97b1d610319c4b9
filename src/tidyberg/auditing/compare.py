"""Compares the rows of two states as multisets of hashes, and classifies each difference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidyberg.execute.kernel.audit import ROW
from tidyberg.model.audit import Example, Harm

Counts = npt.NDArray[np.int64]
_BEFORE, _AFTER = 0, 1


@dataclass(frozen=True)
class FileRows:
    """Some rows of one file, deleted ones too, as the kernel's `ROW`s."""

    path: str
    partition: str
    rows: npt.NDArray[np.void]


@dataclass(frozen=True)
class Differences:
    counts: dict[Harm, int]
    examples: tuple[Example, ...]


def find_differences(before: Sequence[FileRows], after: Sequence[FileRows], *, most_examples: int = 10) -> Differences:
    numbers = _Numbered([before, after])
    live = [numbers.count(side, deleted=False) for side in (_BEFORE, _AFTER)]
    deleted = [numbers.count(side, deleted=True) for side in (_BEFORE, _AFTER)]
    more, fewer = np.maximum(live[_AFTER] - live[_BEFORE], 0), np.maximum(live[_BEFORE] - live[_AFTER], 0)
    came_back = np.minimum(more, deleted[_BEFORE])
    doubled = np.where(live[_BEFORE] > 0, more - came_back, 0)
    new = more - came_back - doubled
    hidden = np.minimum(fewer, deleted[_AFTER])
    gone = fewer - hidden
    changed = min(int(new.sum()), int(gone.sum()))
    counts = {
        Harm.LOST: int(gone.sum()) - changed,
        Harm.HIDDEN: int(hidden.sum()),
        Harm.CHANGED: changed,
        Harm.CAME_BACK: int(came_back.sum()),
        Harm.DOUBLED: int(doubled.sum()),
        Harm.APPEARED: int(new.sum()) - changed,
    }
    found = [
        # Which of the rows that are gone were changed, nobody can tell: all are examples of both.
        *numbers.examples(_BEFORE, gone, Harm.CHANGED if changed else Harm.LOST, most_examples),
        *numbers.examples(_BEFORE, hidden, Harm.HIDDEN, most_examples),
        *numbers.examples(_AFTER, came_back, Harm.CAME_BACK, most_examples),
        *numbers.examples(_AFTER, doubled, Harm.DOUBLED, most_examples),
        *numbers.examples(_AFTER, new, Harm.CHANGED if changed else Harm.APPEARED, most_examples),
    ]
    return Differences({harm: count for harm, count in counts.items() if count}, tuple(found))


class _Numbered:
    """All rows of both states, each with the number of its hash among the distinct ones."""

    def __init__(self, sides: Sequence[Sequence[FileRows]]) -> None:
        self._sides = sides
        rows = [np.concatenate([np.empty(0, ROW), *(file.rows for file in side)]) for side in sides]
        hashes = np.empty(sum(map(len, rows)), [("first", np.uint64), ("second", np.uint64)])
        for lane in ("first", "second"):
            hashes[lane] = np.concatenate([side[lane] for side in rows])
        distinct, numbers = np.unique(hashes, return_inverse=True)
        self._rows = rows
        self._distinct = len(distinct)
        self._numbers = np.split(numbers.reshape(-1), [len(rows[0])])

    def count(self, side: int, *, deleted: bool) -> Counts:
        chosen = self._numbers[side][self._rows[side]["deleted"] == deleted]
        return np.bincount(chosen, minlength=self._distinct).astype(np.int64)

    def examples(self, side: int, harmed: Counts, harm: Harm, most: int) -> Iterator[Example]:
        """Live rows of a side whose hash is among those harmed, as many of each as were, up to `most`."""
        left = {int(number): int(harmed[number]) for number in np.flatnonzero(harmed)}
        start = 0
        for file in self._sides[side]:
            numbers = self._numbers[side][start : start + len(file.rows)]
            start += len(file.rows)
            for at in np.flatnonzero((harmed[numbers] > 0) & ~file.rows["deleted"]):
                number = int(numbers[at])
                if most and left[number]:
                    left[number] -= 1
                    most -= 1
                    yield Example(harm, file.path, int(file.rows["position"][at]), file.partition)
