"""Writes rewritten manifests: encodes their entries, compresses them on several cores, and describes them."""

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from tidyberg.avro.records import BLOCK_BYTES, stream_container
from tidyberg.commit.manifest_kinds import KindEncoder, ManifestKind
from tidyberg.commit.manifests import write_file
from tidyberg.commit.new_partitions import partition_summaries, partition_types
from tidyberg.manifests.encoded_entries import EncodedEntries, Ints
from tidyberg.observe.manifest_list import ListedManifest

AT_A_TIME = 2  # manifests in memory; compression needs no interpreter lock
_SAMPLED_BLOCKS = 16
_BATCH_ROWS = 10_000  # entries that are encoded at a time


@dataclass(frozen=True)
class ManifestContent:
    """The entries of one new manifest."""

    kind: int
    rows: Ints  # of the encoded entries


@dataclass(frozen=True)
class ManifestWriter:
    entries: EncodedEntries
    kinds: Sequence[ManifestKind]

    def write(
        self,
        io: FileIO,
        contents: Sequence[tuple[str, ManifestContent]],
        snapshot_id: int,
        check: Callable[[], None],
    ) -> tuple[dict[str, ListedManifest], BaseException | None]:
        """Returns what was written, by path, and the first error if something was not."""
        encoders = {content.kind: self._encoder(content.kind) for _, content in contents}

        def write_one(path: str, content: ManifestContent) -> ListedManifest:
            check()
            encoded, listed = self._build(encoders[content.kind], path, content, snapshot_id)
            write_file(io, path, encoded)
            return listed

        written: dict[str, ListedManifest] = {}
        failure: BaseException | None = None
        with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="manifests") as pool:
            tasks = [(path, pool.submit(write_one, path, content)) for path, content in contents]
            for path, task in tasks:
                try:
                    written[path] = task.result()
                except BaseException as error:  # noqa: BLE001  # raised by the caller, after the others have ended
                    failure = failure or error
                    for _, other in tasks:
                        other.cancel()
        return written, failure

    def compression(self, kind: int, rows: Ints) -> float:
        """Compressed bytes per byte of these entries, measured on some blocks of them."""
        if not len(rows):
            return 1.0
        sizes = encoded_sizes(self.entries, rows)
        each = max(1, int(BLOCK_BYTES // max(1.0, float(sizes.mean()))))
        starts = np.unique(np.linspace(0, max(0, len(rows) - each), _SAMPLED_BLOCKS).astype(np.int64) // each * each)
        encoder, plain, packed = self._encoder(kind), 0, 0
        for start in starts.tolist():
            block = b"".join(encoder.encode(rows[start : start + each]))
            plain += int(sizes[start : start + each].sum())
            packed += len(zlib.compress(block))
        return packed / plain

    def _encoder(self, kind: int) -> KindEncoder:
        return KindEncoder(self.kinds[kind], self.entries)

    def _build(
        self, encoder: KindEncoder, path: str, content: ManifestContent, snapshot_id: int
    ) -> tuple[bytes, ListedManifest]:
        kind, rows = self.kinds[content.kind], content.rows
        batches = (encoder.encode(rows[start : start + _BATCH_ROWS]) for start in range(0, len(rows), _BATCH_ROWS))
        encoded = stream_container(kind.schema, kind.header, batches)
        part = self.entries.table.select(["partition", "sequence_number", "records", "first_row_id"]).take(rows)
        partitions = kind.partitions(pc.unique(part["partition"]).to_pylist())
        fields = {
            500: path,
            501: len(encoded),
            502: kind.spec_id,
            517: kind.content,
            515: None,  # assigned when the list is written
            516: pc.min(part["sequence_number"]).as_py(),
            503: snapshot_id,
            504: 0,
            505: len(rows),
            506: 0,
            512: 0,
            513: pc.sum(part["records"]).as_py(),
            514: 0,
            507: partition_summaries(partition_types(kind.template), partitions),
            # I8: every entry has its own row ids, so none is assigned, and the table's next row id stays. Files from
            # before the upgrade to version 3 have none: they get them when the list is written.
            520: pc.min(part["first_row_id"]).as_py() if kind.has_row_ids else None,
        }
        return encoded, ListedManifest(fields)


def encoded_sizes(entries: EncodedEntries, rows: Ints) -> Ints:
    """About the size of these entries in a rewritten manifest, before compression."""
    return (entries.column("entry_end") - entries.column("data_file_at"))[rows] + _PREFIX_BYTES


_PREFIX_BYTES = 16  # status, snapshot id and sequence numbers
