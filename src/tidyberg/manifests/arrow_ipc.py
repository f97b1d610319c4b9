"""Sends tables between processes as compressed Arrow streams: entries of manifests as one per partition layout."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidyberg.manifests.entries import ManifestEntries, PartitionColumn, joined
from tidyberg.manifests.partition_tuples import layout_of
from tidyberg.model.manifest import Layout

# The layout; the position, number of entries and number of counts of each manifest; both tables as Arrow streams.
PackedEntries = tuple[Layout, tuple[tuple[int, int, int], ...], bytes, bytes | None]


def pack_entries(manifests: Sequence[ManifestEntries]) -> tuple[PackedEntries, ...]:
    alike: dict[tuple[PartitionColumn, ...], list[int]] = {}
    for number, entries in enumerate(manifests):
        alike.setdefault(entries.partition_columns, []).append(number)
    return tuple(
        _pack(columns, numbers, [manifests[number] for number in numbers]) for columns, numbers in alike.items()
    )


def _pack(
    columns: tuple[PartitionColumn, ...], numbers: Sequence[int], manifests: Sequence[ManifestEntries]
) -> PackedEntries:
    counted_files = [entries.counted_files for entries in manifests if entries.counted_files is not None]
    lengths = [
        (len(entries.span), entries.counted_files.num_rows if entries.counted_files is not None else 0)
        for entries in manifests
    ]
    return (
        layout_of(columns),
        tuple((number, *rows) for number, rows in zip(numbers, lengths, strict=True)),
        pack_table(joined(manifests, manifests[0].source.column_names)),
        pack_table(pa.concat_tables(counted_files)) if counted_files else None,
    )


def unpack_entries(packed: Sequence[PackedEntries]) -> Iterator[tuple[int, ManifestEntries]]:
    """Yields the position of every manifest and its entries."""
    for layout, lengths, entries, counted_files in packed:
        columns = tuple(PartitionColumn(*column) for column in layout)
        table = unpack_table(entries)
        all_counts = unpack_table(counted_files) if counted_files is not None else None
        start = counted_start = 0
        for number, rows, counted_rows in lengths:
            counts = all_counts.slice(counted_start, counted_rows) if all_counts is not None and counted_rows else None
            yield number, ManifestEntries(columns, table, counts, range(start, start + rows))
            start, counted_start = start + rows, counted_start + counted_rows


def pack_table(table: pa.Table) -> bytes:
    table = table.combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack_table(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
