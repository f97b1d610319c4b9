"""The first pass of a join: ranges of keys from footers, and a filter of all deleted keys."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from tidyberg.execute.kernel.deletes.join.key_filter import KeyFilter
from tidyberg.execute.kernel.deletes.join.key_ranges import KeyRange, united
from tidyberg.execute.kernel.deletes.join.keys import KeyColumns, KeyReader
from tidyberg.execute.kernel.deletes.join.scratch_files import ScratchPlace, write_scratch
from tidyberg.execute.kernel.memory import peak_rss_bytes
from tidyberg.model.shuffle import ArrivedChunks, Chunk, ShuffleAttempt
from tidyberg.model.task import TaskInput
from tidyberg.storage.file_io import Storage

_PIECE_WORDS = 1024 * 1024  # 8 MB per chunk


@dataclass(frozen=True, slots=True)
class StoredKeyFilter:
    """A filter of deleted keys in storage."""

    path: str
    size: int
    bits_per_key: int  # how many bits of a word each key sets

    def read(self, storage: Storage) -> KeyFilter:
        content = storage.read_whole(storage.place(self.path), self.size)
        return KeyFilter(np.frombuffer(content, "<u8"), self.bits_per_key)


@dataclass(frozen=True, slots=True)
class SurveyReport:
    deleted: tuple[KeyRange, ...]  # one per key column, of the delete files
    stored: tuple[KeyRange, ...]  # the same of the data files
    peak_rss_bytes: int


@dataclass(frozen=True, slots=True)
class KeySurvey:
    """A map task that reads footers of both sides, and all deleted keys of its files."""

    columns: KeyColumns
    deletes: tuple[TaskInput, ...]
    rows: tuple[TaskInput, ...]
    filter_words: int  # 0: no filter
    bits_per_key: int

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        return self.deletes

    def chunks(self, attempt: ShuffleAttempt) -> Generator[Chunk, None, SurveyReport]:
        reader = KeyReader(self.columns, attempt.storage, attempt.should_stop)
        deleted, stored = [], []
        key_filter = KeyFilter.empty(self.filter_words, self.bits_per_key) if self.filter_words else None
        for delete in self.deletes:
            file = reader.open_deletes(delete)
            with closing(file.source):
                deleted.append(reader.deleted_ranges(file))
                if key_filter is not None:
                    for batch in reader.deleted_keys(file):
                        key_filter.add(batch.hashes()[1])
        for row_file in self.rows:
            file = reader.open_rows(row_file)
            with closing(file.source):
                stored.append(reader.row_ranges(file))
        if key_filter is not None and self.deletes:
            for number in range(0, self.filter_words, _PIECE_WORDS):
                piece = key_filter.words[number : number + _PIECE_WORDS]
                if piece.any():
                    yield Chunk(0, piece.astype("<u8").tobytes(), tag=number // _PIECE_WORDS)
        width = len(reader.leaves)
        return SurveyReport(united(deleted, width), united(stored, width), peak_rss_bytes())


@dataclass(frozen=True, slots=True)
class FilterMerge:
    """A reduce task that unites the filters of all surveys, and writes the result to storage."""

    place: ScratchPlace
    filter_words: int
    bits_per_key: int

    def reduce(self, chunks: ArrivedChunks, attempt: ShuffleAttempt) -> StoredKeyFilter | None:
        if not self.filter_words:
            return None
        words = np.zeros(self.filter_words, np.uint64)
        for chunk in chunks:
            begin = chunk.tag * _PIECE_WORDS
            piece = np.frombuffer(chunk.data, "<u8")
            words[begin : begin + len(piece)] |= piece
        path = self.place.path(0, attempt.number, 0, "filter")
        size = write_scratch(attempt.storage, path, words.astype("<u8", copy=False).data.cast("B"))
        return StoredKeyFilter(path, size, self.bits_per_key)
