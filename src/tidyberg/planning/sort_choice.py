"""Chooses the files that are sorted again: those that are not in order, and those that overlap too deep.

Files that are in order are left as they are while no more than `limit` files overlap anywhere. New files are therefore
sorted among themselves first, and the older ones take part only where the overlap would become too deep.
"""

import numpy as np
import numpy.typing as npt

from tidyberg.planning.key_values import Ints, Mask
from tidyberg.planning.layout import KeyLayout

_ROUNDS = 8


def files_to_sort(layout: KeyLayout, first: Mask, able: Mask, limit: int) -> Mask:
    """Returns the files to sort. `first` are those to sort in any case, `able` those that may be rewritten."""
    taken = first & able
    if layout.key.curve is not None:
        return _on_curve(layout, taken, able, limit)
    for _ in range(_ROUNDS):
        more = (layout.deepest(taken) > limit) & ~taken & able
        if not more.any():
            return taken
        taken = taken | more
    # Each round may widen the span of what is sorted. After some rounds the rest of the partition is not worth a look.
    growing = np.unique(layout.partition[more])
    everything: Mask = taken | (np.isin(layout.partition, growing) & able)
    return everything


def _on_curve(layout: KeyLayout, taken: Mask, able: Mask, limit: int) -> Mask:
    """A curve has no bounds in manifests. The files of one run do not overlap, but any two runs may."""
    partitions = int(layout.partition.max(initial=-1)) + 1
    runs = _runs_left(layout, ~taken, partitions)
    sorts = np.bincount(layout.partition[taken], minlength=partitions) > 0
    too_deep = runs + sorts > limit
    everything: Mask = taken | (too_deep[layout.partition] & able)
    return everything


def _runs_left(layout: KeyLayout, left: Mask, partitions: int) -> Ints:
    pairs = np.unique(np.column_stack((layout.partition, layout.runs))[left], axis=0)
    counts: npt.NDArray[np.int64] = np.bincount(pairs[:, 0], minlength=partitions).astype(np.int64)
    return counts
