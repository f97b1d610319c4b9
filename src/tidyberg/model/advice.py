"""Advice that prevents small files: table properties to set, and settings of the writers that make them."""

from dataclasses import dataclass

from tidyberg.model.table import TableRef


@dataclass(frozen=True, slots=True)
class PropertyAdvice:
    name: str
    current: str | None  # None: the property is not set
    advised: str
    why: str


@dataclass(frozen=True, slots=True)
class Writer:
    """An application that commits to the table, or several applications of an engine that commit seldom."""

    engine: str  # such as "spark"; "unknown" if the snapshots do not say it
    application: str = ""  # its id; empty if it has none, or if there are several
    applications: int = 1

    def __str__(self) -> str:
        if self.applications > 1:
            return f"{self.engine} ({self.applications:,} applications)"
        return f"{self.engine} {self.application}".rstrip()


@dataclass(frozen=True, slots=True)
class WriterHistory:
    """The commits of one writer that added data files."""

    writer: Writer
    commits: int
    files: int
    bytes: int
    least_files: int  # the fewest files that the same commits could have added
    partitions: int  # partitions that the commits changed, added up over the commits
    most_partitions: int  # the most partitions that one commit changed
    interval_ms: int | None  # the median time between two commits; None: there is only one

    @property
    def file_bytes(self) -> float:
        return self.bytes / max(1, self.files)


@dataclass(frozen=True, slots=True)
class WriterSetting:
    place: str  # where it is set, such as "Flink job"
    name: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class DailyCost:
    """The costs of one day that the small files of one writer cause."""

    files: int
    needed_files: int
    put_dollars: float  # to create the files that are not needed
    compaction_dollars: float  # to rewrite a day's files, once a day
    scan_dollars: float  # what each scan of a day's files costs more; not part of `dollars`

    @property
    def dollars(self) -> float:
        return self.put_dollars + self.compaction_dollars


@dataclass(frozen=True, slots=True)
class WriterAdvice:
    history: WriterHistory
    makes_small_files: bool
    settings: tuple[WriterSetting, ...] = ()
    cost: DailyCost | None = None  # None if it makes no small files


@dataclass(frozen=True, slots=True)
class HistorySpan:
    """The part of the commit history that advice is based on."""

    since_ms: int
    days: float  # at least one: shorter histories are not projected
    commits: int  # of writers
    is_cut: bool  # older snapshots have expired
    since_applied: bool = False  # it starts where advised properties were set


@dataclass(frozen=True, slots=True)
class Advice:
    table: TableRef
    properties: tuple[PropertyAdvice, ...]
    writers: tuple[WriterAdvice, ...]  # the most expensive first
    span: HistorySpan
    has_changed: bool = False  # the properties were set just now

    @property
    def is_empty(self) -> bool:
        return not self.properties and not any(one.settings for one in self.writers)
