"""Divides rows until their chunks are small enough to travel."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from tidyberg.model.shuffle import MAX_CHUNK_BYTES


def fitting_chunks(rows: pa.Table, encode: Callable[[pa.Table], pa.Buffer]) -> Iterator[pa.Buffer]:
    """Yields the encoded rows. Only a single row may be larger than the limit; the engine refuses it."""
    chunk = encode(rows)
    if chunk.size <= MAX_CHUNK_BYTES or rows.num_rows <= 1:
        yield chunk
        return
    half = rows.num_rows // 2
    yield from fitting_chunks(rows.slice(0, half), encode)
    yield from fitting_chunks(rows.slice(half), encode)
