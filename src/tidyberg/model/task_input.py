"""The files that tasks read. It is shipped, so it needs only the standard library."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NanFacts:
    """The NaN metrics of a float column from a file's manifest entry. Parquet footers do not count NaN."""

    field_id: int
    count: int
    lower: bytes | None = None  # only if there is NaN; otherwise the footer has the bounds
    upper: bytes | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """The bytes of a shared file that one task reads. Its worker finds the matching rows in the footer."""

    begin: int
    end: int
    slack: int  # a cut moves to the border of a row group if that is at most so many bytes away


@dataclass(frozen=True, slots=True)
class TaskInput:
    path: str
    size: int
    records: int
    sequence_number: int = 0
    first_row_id: int | None = None  # v3; None if the table has not assigned row ids to the file yet
    nans: tuple[NanFacts, ...] = ()  # for a file to copy; the NaN count of an absent float column is unknown
    share: Share | None = None  # None: the whole file

    @property
    def bytes_taken(self) -> int:
        return self.size if self.share is None else self.share.end - self.share.begin

    @property
    def rows_expected(self) -> int:
        """The number of rows in the share, estimated from its bytes. Exact for a whole file."""
        return self.records if self.share is None else self.records * self.bytes_taken // max(1, self.size)
