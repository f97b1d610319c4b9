"""Reads the live entries of many manifests as they are encoded, so that they can be written again without decoding.

The walk of `avro/walk.py` notes where each value begins. To learn where records and fields begin and end, this module
walks with a schema that has additional fields of type null. These take no bytes, and the walk notes their positions.
"""

import json
import mmap
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.avro.container import AvroError, Container, blocks, decoding, open_container
from tidyberg.avro.values import column, slices
from tidyberg.avro.walk import Fields, Wanted, walk
from tidyberg.manifests.entries import DELETED, ManifestError
from tidyberg.manifests.inherit import inherit
from tidyberg.model.manifest import ManifestInfo

_DATA_FILE, _PARTITION, _FIRST_ROW_ID = 2, 102, 142
_MARKS = ("data_file_at", "partition_at", "partition_end", "row_id_at", "row_id_end", "entry_end")
_MARK_IDS = {name: -1 - number for number, name in enumerate(_MARKS)}  # Iceberg has no negative ids
_WANTED = Wanted(
    (
        (0, "status"),
        (1, "snapshot_id"),
        (3, "sequence_number"),
        (4, "file_sequence_number"),
        (103, "records"),
        (_FIRST_ROW_ID, "first_row_id"),
        *((number, name) for name, number in _MARK_IDS.items()),
    )
)
_NUMBERS = (
    ("status", pa.int32()),
    ("snapshot_id", pa.int64()),
    ("sequence_number", pa.int64()),
    ("file_sequence_number", pa.int64()),
    ("first_row_id", pa.int64()),
    ("records", pa.int64()),
)
_BATCH_BYTES = 48 * 1024 * 1024  # decompressed blocks to walk at once
_HELD_BYTES = 512 * 1024 * 1024  # decompressed blocks in memory; further ones are in a temporary file

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EntryFormat:
    """What manifests with the same header have in common."""

    schema_text: str
    header: Mapping[str, bytes]

    @property
    def version(self) -> int:
        return int(self.header.get("format-version", b"1"))


@dataclass(frozen=True)
class EncodedEntries:
    """Live entries in the order of their manifests. Their bytes are in `buffers`."""

    manifests: tuple[ManifestInfo, ...]
    formats: tuple[EntryFormat, ...]
    format_of: tuple[int, ...]  # the format of each manifest
    deleted: tuple[int, ...]  # entries of each manifest that are DELETED, and therefore not here
    buffers: tuple[memoryview, ...]
    table: pa.Table  # with inherited values

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> Ints:
        """A column without nulls."""
        values: Ints = self.table[name].to_numpy().astype(np.int64, copy=False)
        return values

    @property
    def counts(self) -> Ints:
        """The number of live entries of each manifest."""
        return np.bincount(self.column("manifest"), minlength=len(self.manifests))


def read_encoded(files: Iterable[tuple[ManifestInfo, bytes]]) -> EncodedEntries:
    """Raises ManifestError. Blocks of manifests with the same schema are walked together."""
    reading = _Reading()
    for info, raw in files:
        reading.add(info, raw)
    return reading.finish()


class _Reading:
    def __init__(self) -> None:
        self.infos: list[ManifestInfo] = []
        self.formats: dict[tuple[str, tuple[tuple[str, bytes], ...]], int] = {}
        self.kinds: list[EntryFormat] = []
        self.format_of: list[int] = []
        self.buffers: list[memoryview] = []
        self.pieces: list[pa.Table] = []
        self.deleted: list[int] = []
        self._last: tuple[Container, int] | None = None
        self._blocks: dict[str, list[tuple[int, int, bytes]]] = {}  # by schema: manifest, number of records, bytes
        self._pending = self._held = 0

    def add(self, info: ManifestInfo, raw: bytes) -> None:
        number = len(self.infos)
        with _naming(info.path):
            container = open_container(raw, self._last[0] if self._last is not None else None)
            if self._last is not None and container.metadata is self._last[0].metadata:
                kind = self._last[1]
            else:
                kind = self._format(container)
            self._last = container, kind
            self.infos.append(info)
            self.format_of.append(kind)
            self.deleted.append(0)
            for count, content in blocks(container):
                self._blocks.setdefault(self.kinds[kind].schema_text, []).append((number, count, content))
                self._pending += len(content)
        if self._pending >= _BATCH_BYTES:
            self._flush()

    def _format(self, container: Container) -> int:
        header = {name: value for name, value in container.metadata.items() if not name.startswith("avro.")}
        key = container.schema_text, tuple(sorted(header.items()))
        if key not in self.formats:
            self.formats[key] = len(self.kinds)
            self.kinds.append(EntryFormat(container.schema_text, header))
        return self.formats[key]

    def _flush(self) -> None:
        for schema_text, held in self._blocks.items():
            marked = with_marks(schema_text)
            try:
                with decoding():
                    fields = walk(marked, _WANTED, [(count, content) for _, count, content in held])
                    self._take(fields, held)
            except AvroError:
                for number, count, content in held:  # find the damaged one
                    with _naming(self.infos[number].path):
                        walk(marked, _WANTED, [(count, content)])
                raise
        self._blocks, self._pending = {}, 0

    def _take(self, fields: Fields, held: Sequence[tuple[int, int, bytes]]) -> None:
        owners = np.repeat([number for number, _, _ in held], [count for _, count, _ in held]).astype(np.int32)
        live = column(fields, "status", pa.int32()).to_numpy() != DELETED
        for number, gone in zip(*np.unique(owners[~live], return_counts=True), strict=True):
            self.deleted[number] += int(gone)
        marks = {name: fields.positions.get(name, np.zeros(fields.rows, np.int64))[live] for name in _MARKS}
        columns: dict[str, Any] = {name: column(fields, name, kind).filter(pa.array(live)) for name, kind in _NUMBERS}
        columns["manifest"] = pa.array(owners[live])
        columns["buffer"] = pa.array(np.full(int(live.sum()), len(self.buffers), np.int32))
        begins, ends = marks.pop("partition_at"), marks.pop("partition_end")
        columns["partition"] = slices(fields.buffer, begins, ends - begins, pa.binary())
        columns |= {name: pa.array(positions) for name, positions in marks.items()}
        self.pieces.append(pa.table(columns))
        self.buffers.append(self._hold(fields.buffer.bytes.data))

    def _hold(self, content: memoryview) -> memoryview:
        self._held += len(content)
        if self._held <= _HELD_BYTES:
            return content
        with tempfile.TemporaryFile() as file:  # its pages are not this process's memory, and end with the mapping
            file.write(content)
            file.flush()
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def finish(self) -> EncodedEntries:
        self._flush()
        table = pa.concat_tables(self.pieces).combine_chunks() if self.pieces else _empty()
        owners = table["manifest"].to_numpy()
        if len(owners) and (np.diff(owners) < 0).any():
            table = table.take(pa.array(np.argsort(owners, kind="stable"))).combine_chunks()
            owners = table["manifest"].to_numpy()
        if table.num_rows:
            names = pa.array([info.path for info in self.infos])
            named = table.append_column("path", pa.DictionaryArray.from_arrays(pa.array(owners), names))
            table = inherit(named, self.infos, owners).drop_columns(["path"])
        return EncodedEntries(
            tuple(self.infos),
            tuple(self.kinds),
            tuple(self.format_of),
            tuple(self.deleted),
            tuple(self.buffers),
            table,
        )


def _empty() -> pa.Table:
    names = [*_NUMBERS, ("manifest", pa.int32()), ("buffer", pa.int32()), ("partition", pa.binary())]
    marks = [(name, pa.int64()) for name in _MARKS if not name.startswith("partition")]
    return pa.schema([*names, *marks]).empty_table()


@lru_cache(maxsize=256)
def with_marks(schema_text: str) -> str:
    schema = json.loads(schema_text)
    data_file = schema["fields"][-1]
    if data_file.get("field-id") != _DATA_FILE or not isinstance(data_file["type"], dict):
        raise AvroError("the last field of its entries is not the data file")
    inner: list[Any] = [_mark("data_file_at")]
    for field in data_file["type"]["fields"]:
        match field.get("field-id"):
            case 102:
                inner += [_mark("partition_at"), field, _mark("partition_end")]
            case 142:
                inner += [_mark("row_id_at"), field, _mark("row_id_end")]
            case _:
                inner.append(field)
    inner.append(_mark("entry_end"))
    if _mark("partition_at") not in inner:
        raise AvroError("its entries have no partition")
    data_file["type"]["fields"] = inner
    return json.dumps(schema)


def _mark(name: str) -> dict[str, Any]:
    return {"name": name, "type": "null", "field-id": _MARK_IDS[name]}


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Names the manifest in errors about its content."""
    try:
        with decoding():
            yield
    except ManifestError:
        raise
    except AvroError as error:
        raise ManifestError(path, str(error)) from error
