"""Entries of many manifests on their way between processes: one compressed Arrow stream a partition layout."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple

import numpy as np
import pyarrow as pa

from tidyberg.manifests.entries import ManifestEntries, PartitionColumn

# The layout, the position of each manifest among all with its number of entries, and the entries as an Arrow stream.
PackedEntries = tuple[tuple[tuple[int, str, str | None, int], ...], tuple[tuple[int, int], ...], bytes]


def pack_entries(manifests: Sequence[ManifestEntries]) -> tuple[PackedEntries, ...]:
    alike: dict[tuple[PartitionColumn, ...], list[int]] = {}
    for number, entries in enumerate(manifests):
        alike.setdefault(entries.partition_columns, []).append(number)
    return tuple(
        (
            tuple(astuple(column) for column in columns),
            tuple((number, manifests[number].table.num_rows) for number in numbers),
            _stream(pa.concat_tables([manifests[number].table for number in numbers]).combine_chunks()),
        )
        for columns, numbers in alike.items()
    )


def unpack_entries(packed: Sequence[PackedEntries]) -> Iterator[tuple[int, ManifestEntries]]:
    """The position of every manifest, and its entries."""
    for layout, lengths, stream in packed:
        columns = tuple(PartitionColumn(*column) for column in layout)
        table = pa.ipc.open_stream(stream).read_all()
        starts = np.cumsum([0, *(rows for _, rows in lengths)]).tolist()
        for (number, rows), start in zip(lengths, starts, strict=False):
            yield number, ManifestEntries(columns, table.slice(start, rows))


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content
