"""Encodes the columns of a row group on several cores: in bundles, each a file in memory made by a thread."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from tidyberg.execute.kernel.read.source import Source
from tidyberg.execute.kernel.write.paged_output import in_memory

# More bundles than cores come out evenly, though bytes tell only roughly how long a column takes.
_BUNDLES_PER_CORE = 3
MIN_PARALLEL_BYTES = 4 * 1024 * 1024  # below, the caller's thread is as quick by itself

EncodedColumns = dict[int, tuple[Source, int]]  # by the number of a leaf in the output: its file, and its number there


class PendingRowGroup:
    """A row group whose columns are being encoded."""

    def __init__(self, bundles: Sequence[Callable[[], EncodedColumns]]) -> None:
        self._bundles = bundles

    def result(self) -> EncodedColumns:
        """Waits for all columns; raises what a thread met."""
        return dict(chain.from_iterable(bundle().items() for bundle in self._bundles))


class ColumnEncoders:
    """The threads of one task that encode; with a single core there are none, and the caller's does the work."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, table: pa.Table, options: Mapping[str, Any], leaf_numbers: Sequence[range]) -> PendingRowGroup:
        """`leaf_numbers` are those of each column's leaves in the output."""
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
        """Returns when no thread is left; bundles that none has begun are left alone."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def bundles(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Columns by their positions, in at most so many bundles of about the same bytes, the largest first."""
    found: list[tuple[int, list[int]]] = [(0, []) for _ in range(min(most, len(sizes)))]
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position]):
        smallest = min(range(len(found)), key=lambda number: found[number][0])
        size, bundle = found[smallest]
        found[smallest] = (size + sizes[position], [*bundle, position])
    return [bundle for _, bundle in sorted(found, key=lambda one: -one[0])]


def _encode(table: pa.Table, options: Mapping[str, Any], leaf_numbers: Sequence[range]) -> EncodedColumns:
    made = in_memory(table, options)
    return {number: (made, index) for index, number in enumerate(chain.from_iterable(leaf_numbers))}
