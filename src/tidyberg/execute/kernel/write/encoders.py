"""Encodes the columns of a row group on several cores. Each thread writes a bundle of columns to a file in memory."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from tidyberg.execute.kernel.read.source import Source
from tidyberg.execute.kernel.write.paged_output import in_memory

# Bytes predict only roughly how long a column takes; more bundles than cores even that out.
_BUNDLES_PER_CORE = 3
MIN_PARALLEL_BYTES = 4 * 1024 * 1024  # below this, one thread is as fast

EncodedColumns = dict[int, tuple[Source, int]]  # leaf number in the output -> file in memory, and leaf number in it


class PendingRowGroup:
    """A row group whose columns are being encoded."""

    def __init__(self, bundles: Sequence[Callable[[], EncodedColumns]]) -> None:
        self._bundles = bundles

    def result(self) -> EncodedColumns:
        """Waits for all columns. Raises the error of a thread, if there was one."""
        return dict(chain.from_iterable(bundle().items() for bundle in self._bundles))


class ColumnEncoders:
    """The encoding threads of one task. With a single core, the caller's thread encodes."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, table: pa.Table, options: Mapping[str, Any], leaf_numbers: Sequence[range]) -> PendingRowGroup:
        """Starts to encode a row group. `leaf_numbers` holds the numbers of each column's leaves in the output."""
        if self._cores == 1 or table.nbytes < MIN_PARALLEL_BYTES:
            return PendingRowGroup([partial(_encode, table, options, leaf_numbers)])
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._cores, thread_name_prefix="tidyberg-encode")
        sizes = [column.nbytes for column in table.columns]
        return PendingRowGroup(
            [
                self._pool.submit(_encode, table.select(bundle), options, [leaf_numbers[p] for p in bundle]).result
                for bundle in bundles(sizes, _BUNDLES_PER_CORE * self._cores)
            ]
        )

    def close(self) -> None:
        """Drops bundles that have not started, and returns when all threads have ended."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def bundles(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Divides columns into at most `most` bundles of similar size, the largest first."""
    found: list[tuple[int, list[int]]] = [(0, []) for _ in range(min(most, len(sizes)))]
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position]):
        smallest = min(range(len(found)), key=lambda number: found[number][0])
        size, bundle = found[smallest]
        found[smallest] = (size + sizes[position], [*bundle, position])
    return [bundle for _, bundle in sorted(found, key=lambda one: -one[0])]


def _encode(table: pa.Table, options: Mapping[str, Any], leaf_numbers: Sequence[range]) -> EncodedColumns:
    made = in_memory(table, options)
    return {number: (made, index) for index, number in enumerate(chain.from_iterable(leaf_numbers))}
