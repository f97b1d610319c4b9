"""Packs files into groups: first-fit-decreasing up to the target size, then small groups are merged into others."""

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidyberg.planning.file_sizes import FileSizes

_MAX_LEVELLED_BINS = 256  # with more tasks than that, no core waits long for the last one


def pack_files(file_sizes: Sequence[int] | npt.NDArray[np.int64], sizes: FileSizes) -> list[list[int]]:
    """Returns groups of positions in `file_sizes`. Every file is in exactly one group.

    No group of several files is above the group limit, which is at most twice the target. Files of equal size keep
    their order, so the caller's order decides ties [I11].
    """
    measured = np.asarray(file_sizes, dtype=np.int64)
    capacity = min(sizes.target, sizes.group_limit)
    if len(measured) and measured.sum() <= capacity:
        return [list(range(len(measured)))]  # most partitions of a table with many partitions end here
    bins = _level(first_fit_decreasing(measured, capacity), measured)
    return _merge_small_bins(bins, measured, sizes)


def output_count(total_bytes: int, sizes: FileSizes) -> int:
    """Returns the number of equal files that a group is written to.

    The files are as near to the target as possible. None is above the maximum. None is below the small-file threshold
    if fewer files avoid that.
    """
    count = max(1, round(total_bytes / sizes.target), -(-total_bytes // sizes.maximum))
    while count > 1 and total_bytes < count * sizes.small and total_bytes <= (count - 1) * sizes.maximum:
        count -= 1
    return count


def first_fit_decreasing(file_sizes: npt.NDArray[np.int64], capacity: int) -> list[list[int]]:
    """Puts each file into the first bin with room, the largest file first. A file above the capacity gets its own bin.

    A tree has the largest room below each node. It finds the first bin with room in log(bins) steps.
    """
    order = np.argsort(-file_sizes, kind="stable")
    descending = file_sizes[order].tolist()
    positions = order.tolist()
    oversized = int(np.count_nonzero(file_sizes > capacity))
    bins = [[position] for position in positions[:oversized]]
    # At most one bin is less than half full, which bounds the number of bins.
    remaining = sum(descending[oversized:])
    bound = min(len(descending) - oversized, 2 * (remaining // capacity) + 2)
    if bound <= 0:
        return bins
    leaves = 1 << (bound - 1).bit_length()
    room = [capacity] * (2 * leaves)
    filled: list[list[int]] = []
    for position, size in zip(positions[oversized:], descending[oversized:], strict=True):
        node = 1
        while node < leaves:
            node *= 2
            if room[node] < size:
                node += 1
        if node - leaves == len(filled):
            filled.append([])
        filled[node - leaves].append(position)
        left = room[node] = room[node] - size
        while node > 1:  # update the largest room of every node above
            sibling = room[node ^ 1]
            if sibling > left:
                left = sibling
            node >>= 1
            if room[node] == left:
                break
            room[node] = left
    return bins + filled


def _level(bins: list[list[int]], file_sizes: npt.NDArray[np.int64]) -> list[list[int]]:
    """Fills the same number of bins evenly. First-fit leaves the last one nearly empty, and its task ends early.

    With a capacity of the mean plus the largest file, no more bins are needed. Half of that spare room is often enough.
    """
    several = [members for members in bins if len(members) > 1]
    if not 2 <= len(several) <= _MAX_LEVELLED_BINS:
        return bins
    alone = [members for members in bins if len(members) == 1]
    shared = np.sort(np.concatenate(several))
    rest = file_sizes[shared]
    mean, largest = -(-int(rest.sum()) // len(several)), int(rest.max())
    fullest = max(int(file_sizes[members].sum()) for members in several)
    for spare in (largest // 2, largest):
        if mean + spare < fullest:
            level = first_fit_decreasing(rest, mean + spare)
            if len(level) <= len(several):
                return alone + [shared[members].tolist() for members in level]
    return bins


def _merge_small_bins(bins: list[list[int]], file_sizes: npt.NDArray[np.int64], sizes: FileSizes) -> list[list[int]]:
    """Merges every bin below the small-file threshold into the emptiest other bin, if that saves a file."""
    waiting = [(int(file_sizes[members].sum()), number) for number, members in enumerate(bins)]
    if all(total >= sizes.small for total, _ in waiting):
        return bins
    heapq.heapify(waiting)
    kept: list[int] = []
    while len(waiting) > 1 and waiting[0][0] < sizes.small:
        total, number = heapq.heappop(waiting)
        other_total, other = waiting[0]
        both = total + other_total
        saved = output_count(total, sizes) + output_count(other_total, sizes) - output_count(both, sizes)
        if both <= sizes.group_limit and saved > 0:
            bins[other] += bins[number]
            heapq.heapreplace(waiting, (both, other))
        else:
            kept.append(number)
    kept += [number for _, number in waiting]
    return [bins[number] for number in sorted(kept)]
