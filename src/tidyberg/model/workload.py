"""The filters of queries on a table, how often they run, and what a layout of its files would change for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidyberg.model.sort_key import Curve
from tidyberg.model.table import TableRef


class Operator(StrEnum):
    EQ = "="
    IN = "in"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IS_NULL = "is null"
    NOT_NULL = "is not null"
    STARTS_WITH = "starts with"

    @property
    def is_unary(self) -> bool:
        return self in (Operator.IS_NULL, Operator.NOT_NULL)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with values of its type, as PyIceberg holds them: days, microseconds, Decimal, bytes."""

    column: str
    operator: Operator
    values: tuple[Any, ...] | None = ()  # None: not known, because the query has a parameter or was sanitised


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Anything:
    """A condition that the bounds of a file can never rule out."""


Condition = Comparison | AllOf | AnyOf | Anything


def comparisons(condition: Condition) -> Iterator[Comparison]:
    if isinstance(condition, Comparison):
        yield condition
    elif isinstance(condition, AllOf | AnyOf):
        for part in condition.parts:
            yield from comparisons(part)


def all_of(parts: Iterable[Condition]) -> Condition:
    """A part that rules nothing out does not change a conjunction."""
    flat = [inner for one in parts for inner in (one.parts if isinstance(one, AllOf) else (one,))]
    kept = tuple(one for one in flat if not isinstance(one, Anything))
    return AllOf(kept) if len(kept) > 1 else kept[0] if kept else Anything()


def any_of(parts: Iterable[Condition]) -> Condition:
    """A disjunction with a part that rules nothing out rules nothing out itself."""
    flat = tuple(inner for one in parts for inner in (one.parts if isinstance(one, AnyOf) else (one,)))
    if not flat or any(isinstance(one, Anything) for one in flat):
        return Anything()
    return AnyOf(flat) if len(flat) > 1 else flat[0]


def without_null_tests(condition: Condition) -> Condition:
    """Returns what the condition says of rows if nulls may come from elsewhere: `is null` then rules nothing out."""
    if isinstance(condition, AllOf):
        return all_of(without_null_tests(part) for part in condition.parts)
    if isinstance(condition, AnyOf):
        return any_of(without_null_tests(part) for part in condition.parts)
    is_test = isinstance(condition, Comparison) and condition.operator is Operator.IS_NULL
    return Anything() if is_test else condition


@dataclass(frozen=True, slots=True)
class ScanFilter:
    """The filter of one scan of the table, and how often it ran."""

    condition: Condition
    weight: float = 1.0
    text: str = ""  # the query, shortened


@dataclass(frozen=True, slots=True)
class Workload:
    filters: tuple[ScanFilter, ...] = ()  # one for each scan of the table
    queries: int = 0  # statements in the log, each counted once
    elsewhere: int = 0  # of them, those that do not read the table
    unreadable: tuple[str, ...] = ()  # why statements could not be parsed, one text for each
    joined_on: Mapping[str, float] = field(default_factory=dict)  # column -> weight of the joins on it

    def __add__(self, other: "Workload") -> "Workload":
        joined = {
            name: self.joined_on.get(name, 0.0) + other.joined_on.get(name, 0.0)
            for name in (*self.joined_on, *other.joined_on)
        }
        return Workload(
            self.filters + other.filters,
            self.queries + other.queries,
            self.elsewhere + other.elsewhere,
            self.unreadable + other.unreadable,
            joined,
        )


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """An order of rows: columns one after the other, or a curve over them."""

    columns: tuple[str, ...]
    curve: Curve | None = None

    def __str__(self) -> str:
        names = ", ".join(self.columns)
        return f"sort by {names}" if self.curve is None else f"{self.curve.value}({names})"


@dataclass(frozen=True, slots=True)
class LayoutScore:
    layout: LayoutChoice
    share: float  # of the table's files that a query reads on average, with queries counted by weight


@dataclass(frozen=True, slots=True)
class FilterScore:
    """The files that one filter reads."""

    text: str
    weight: float
    before: float
    after: float  # with the recommended layout; the same as before if there is none
    bytes_before: int  # of these files
    bytes_after: int
    is_typical: bool  # its values are not known, so values of the sample stand for them


@dataclass(frozen=True, slots=True)
class BoundaryChoice:
    """Rewrites only files that straddle the bounds of frequent ranges over one column, cut at these bounds."""

    column: str
    boundaries: tuple[str, ...]  # as users write them, in the order of their values
    files: int
    bytes: int
    share: float  # of the files that a query reads afterwards
    full_share: float  # the same after the whole table is sorted by the column
    full_bytes: int  # that a full sort rewrites
    paths: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class SampleFacts:
    rows: int = 0
    bytes: int = 0  # compressed bytes of the column chunks that were read
    partitions: int = 0  # of which rows were read
    all_partitions: int = 0


@dataclass(frozen=True, slots=True)
class QueryAdvice:
    """The layout that the queries of a log would profit from most."""

    table: TableRef
    queries: int
    elsewhere: int
    unreadable: tuple[str, ...]
    scans: float  # weight of all scans of the table
    unfiltered: float  # weight of the scans whose filter no layout can serve
    unmeasured: float  # weight of the scans whose filters are too rare to be measured
    columns: tuple[tuple[str, float], ...]  # filter columns by weight, the heaviest first
    joined_on: tuple[tuple[str, float], ...]
    files: int
    bytes: int
    share: float  # of the files that a query reads today
    scores: tuple[LayoutScore, ...]  # the best first
    best: LayoutChoice | None  # None: nothing prunes better than what there is
    why: str
    filters: tuple[FilterScore, ...]  # the heaviest first
    sample: SampleFacts
    files_by_size: int  # files that the table's target size would give
    boundary: BoundaryChoice | None = None
