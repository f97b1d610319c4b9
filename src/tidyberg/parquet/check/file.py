"""Checks a Parquet file: compares its footer, page headers, page indexes and Bloom filters with the decoded values.

    from tidyberg.parquet.check.file import check_file, check_path

    report = check_path("some.parquet")          # a local file
    report = check_file(read, size, "s3://…")    # any other: read(offset, length) gives bytes
    assert not report.problems, "\\n".join(map(str, report.problems))

A problem has the file, row group, column and page, the stable name of a rule (`rule`) and a description (`what`). One
column chunk at a time is in memory. `report.columns` has the true statistics of each column, which
`kernel/check/metrics.py` compares with the manifest. INT96 columns, intervals and other types without an order have no
bounds to check. We wrote this because no library does it: readers trust footers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidyberg.parquet.check.chunk import CheckedColumn, ChunkLayout, ChunkTruth, Read, check_chunk
from tidyberg.parquet.check.order import Order, Value
from tidyberg.parquet.check.problems import FileProblem, Findings
from tidyberg.parquet.check.sorting import SortingColumn, is_sorted
from tidyberg.parquet.check.structure import Structure, read_structure
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.schema import elements


@dataclass
class ColumnTruth:
    """The true statistics of a column over all row groups."""

    column: CheckedColumn
    field_id: int | None
    stored_bytes: int = 0
    values: int = 0
    nulls: int = 0
    nans: int = 0
    lower: Value | None = None  # of the values that are neither null nor NaN
    upper: Value | None = None
    has_negative_zero: bool = False
    has_positive_zero: bool = False

    def add(self, layout: ChunkLayout, chunk: ChunkTruth) -> None:
        truth = chunk.truth(self.column.leaf.value_bytes)
        self.stored_bytes += layout.pages.length
        self.values += truth.values
        self.nulls += truth.nulls
        self.nans += truth.nans
        if truth.lower is not None:
            self.lower = truth.lower if self.lower is None else min(self.lower, truth.lower)
            self.upper = truth.upper if self.upper is None else max(self.upper, truth.upper)
        self.has_negative_zero |= chunk.has_negative_zero
        self.has_positive_zero |= chunk.has_positive_zero


@dataclass(frozen=True)
class FileReport:
    problems: tuple[FileProblem, ...]
    size: int
    rows: int = 0
    row_group_offsets: tuple[int, ...] = ()
    columns: tuple[ColumnTruth, ...] = ()  # empty if a part of the file could not be read
    field_ids: Mapping[str, int] = field(default_factory=dict)  # by the path of the column
    created_by: str = ""


def check_path(path: Path | str) -> FileReport:
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:

        def read(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        return check_file(read, size, str(path))


def check_file(read: Read, size: int, name: str = "") -> FileReport:
    findings = Findings(FileProblem("", "", name))
    try:
        structure = read_structure(read, size, findings)
    except CannotCopy as damage:
        findings.add("footer", str(damage))
        structure = None
    if structure is None:
        return FileReport(tuple(findings), size)
    truths = _columns(structure)
    read_through = True
    for number, group in enumerate(structure.row_groups):
        of_group = findings.at(row_group=number)
        sorting = {entry.position for entry in group.sorting}
        found: dict[int, ChunkTruth] = {}
        for position, layout in enumerate(group.chunks):
            column = truths[position].column
            if layout is None:
                read_through = False
                continue
            chunk = check_chunk(
                read, layout, column, group.rows, of_group.at(column=column.name), keeps_values=position in sorting
            )
            if chunk is None:
                read_through = False
                continue
            found[position] = chunk
            truths[position].add(layout, chunk)
        if group.sorting and sorting <= found.keys():
            columns = [
                SortingColumn(one.descending, one.nulls_first, truths[one.position].column, found[one.position])
                for one in group.sorting
            ]
            of_group.expect(
                is_sorted(columns, group.rows), "sorting-columns", "rows are not in the order that the row group states"
            )
    return FileReport(
        tuple(findings),
        size,
        structure.rows,
        tuple(group.start for group in structure.row_groups if group.start is not None),
        tuple(truths) if read_through else (),
        {truth.column.name: truth.field_id for truth in truths if truth.field_id is not None},
        structure.created_by,
    )


def _columns(structure: Structure) -> Sequence[ColumnTruth]:
    leaf_elements = [element for element in elements(structure.schema) if element.type]
    return [
        ColumnTruth(
            CheckedColumn(leaf, Order.of(leaf.type, element), b".".join(leaf.path).decode(errors="replace")),
            element.field_id,
        )
        for leaf, element in zip(structure.leaves, leaf_elements, strict=True)
    ]
