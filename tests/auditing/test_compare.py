"""Differences between multisets of rows, against a plain count of them."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.auditing.compare import FileRows, find_differences
from tidyberg.execute.kernel.audit import ROW
from tidyberg.model.audit import Harm

Row = tuple[int, bool]  # what it is, and whether it is deleted
Files = list[list[Row]]

FILES = st.lists(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=6), max_size=3)


def as_rows(file: Sequence[Row]) -> npt.NDArray[np.void]:
    # All of one first lane: only both lanes together tell rows apart.
    return np.array([(7, kind, position, deleted) for position, (kind, deleted) in enumerate(file)], ROW)


def as_files(files: Files) -> list[FileRows]:
    return [FileRows(f"file-{number}", "p", as_rows(file)) for number, file in enumerate(files)]


def count(files: Files, *, deleted: bool) -> Counter[int]:
    return Counter(kind for file in files for kind, is_deleted in file if is_deleted == deleted)


@given(FILES, FILES)
def test_every_difference_is_counted_once(before: Files, after: Files) -> None:
    found = find_differences(as_files(before), as_files(after)).counts
    gone = count(before, deleted=False) - count(after, deleted=False)
    more = count(after, deleted=False) - count(before, deleted=False)
    changed = found.get(Harm.CHANGED, 0)
    assert found.get(Harm.LOST, 0) + found.get(Harm.HIDDEN, 0) + changed == gone.total()
    others = (Harm.CAME_BACK, Harm.DOUBLED, Harm.APPEARED)
    assert sum(found.get(harm, 0) for harm in others) + changed == more.total()
    assert found.get(Harm.CAME_BACK, 0) == (more & count(before, deleted=True)).total()
    assert found.get(Harm.HIDDEN, 0) == (gone & count(after, deleted=True)).total()
    assert not (found.get(Harm.LOST, 0) and found.get(Harm.APPEARED, 0)), "such pairs are changed rows"


@given(FILES, FILES)
def test_examples_are_live_rows_of_the_right_state(before: Files, after: Files) -> None:
    found = find_differences(as_files(before), as_files(after))
    assert len({(e.harm, e.path, e.position) for e in found.examples}) >= bool(found.counts)
    for example in found.examples:
        number = int(example.path.removeprefix("file-"))
        states = {
            Harm.LOST: [before],
            Harm.HIDDEN: [before],
            Harm.CHANGED: [before, after],
        }.get(example.harm, [after])
        assert any(
            number < len(state) and example.position < len(state[number]) and not state[number][example.position][1]
            for state in states
        )


def test_examples_have_an_end() -> None:
    before = as_files([[(kind, False) for kind in range(50)]])
    found = find_differences(before, [], most_examples=10)
    assert found.counts == {Harm.LOST: 50}
    assert len(found.examples) == 10
