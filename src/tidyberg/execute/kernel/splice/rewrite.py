"""Splices files: moves pages as bytes if they need not be decoded, and encodes the other columns."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from tidyberg.execute.kernel.deletes.surviving_rows import SurvivingRows
from tidyberg.execute.kernel.encode import Encode, FirstFiles, TaskWriter
from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.splice.eligibility import columns_to_move
from tidyberg.execute.kernel.splice.writer import SplicingWriter
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.model.task import TaskResult


class PageWriter:
    """Writes files one after another, and moves the pages of some columns."""

    joins = False

    def __init__(self, first: FirstFiles, moved: Collection[int]) -> None:
        attempt = first.attempt
        self._splicing = SplicingWriter(
            attempt.task,
            attempt.number,
            attempt.storage,
            first.target,
            first.schema,
            moved,
            first.dictionaries,
            attempt.reader,
        )

    def write(self, files: Iterator[OpenFile], surviving: SurvivingRows) -> list[FinishedOutput]:
        surviving.splice(files, self._splicing)
        return self._splicing.finish()

    def abandon(self) -> bool:
        return self._splicing.abandon()

    def describe(self, result: TaskResult) -> TaskResult:
        return replace(
            result,
            rows_written=self._splicing.rows_written,
            bytes_spliced=self._splicing.bytes_moved,
            spliced_files=tuple(self._splicing.files_moved),
        )


class Splice(Encode):
    """Moves pages, or encodes like `Encode` if the first files show that moving does not pay."""

    def open_writer(self, first: FirstFiles) -> TaskWriter:
        attempt = first.attempt
        moved = columns_to_move(
            attempt.task,
            attempt.storage,
            first.target,
            first.dictionaries,
            first.files,
            attempt.reader,
            first.deleted_rows.may_delete_from,
        )
        return PageWriter(first, moved) if moved else super().open_writer(first)
