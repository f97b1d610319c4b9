"""Tells from snapshot summaries which writers a table has, and what each of them adds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from statistics import median

from tidyberg.model.advice import Writer, WriterHistory
from tidyberg.model.table import SnapshotInfo

SPARK, FLINK, KAFKA_CONNECT, TRINO, UNKNOWN = "spark", "flink", "kafka connect", "trino", "unknown"
_CONNECT_PREFIX = "kafka.connect."
_CONNECT_OFFSETS = "kafka.connect.offsets."
# An application with fewer commits, such as a daily job, is counted together with others of its engine.
_OWN_COMMITS = 5


@dataclass(frozen=True, slots=True)
class _Commit:
    timestamp_ms: int
    files: int
    bytes: int
    partitions: int


def writer_of(summary: Mapping[str, str]) -> Writer:
    """Recognises engines by the properties that their Iceberg sinks write into snapshot summaries."""
    for name in summary:
        if name.startswith(_CONNECT_OFFSETS):
            return Writer(KAFKA_CONNECT, name.removeprefix(_CONNECT_OFFSETS))
    if any(name.startswith(_CONNECT_PREFIX) for name in summary):
        return Writer(KAFKA_CONNECT)
    if "flink.job-id" in summary:
        return Writer(FLINK, summary["flink.job-id"])
    if "trino_query_id" in summary:
        return Writer(TRINO)  # the id is one of a query, not of an application
    application = summary.get("app-id") or summary.get("spark.app.id") or ""
    engine = summary.get("engine-name", "").strip().lower() or (SPARK if "spark.app.id" in summary else UNKNOWN)
    return Writer(engine, application)


def writer_histories(snapshots: Iterable[SnapshotInfo], target_bytes: int) -> list[WriterHistory]:
    """Returns the history of each writer, the one with most files first. Compactions do not count."""
    by_writer: dict[Writer, list[_Commit]] = defaultdict(list)
    for snapshot in snapshots:
        commit = _commit_of(snapshot)
        if commit is not None:
            by_writer[writer_of(snapshot.summary)].append(commit)
    seldom: dict[str, list[Writer]] = defaultdict(list)
    for writer, commits in by_writer.items():
        if writer.application and len(commits) < _OWN_COMMITS:
            seldom[writer.engine].append(writer)
    for engine, writers in seldom.items():
        if len(writers) > 1:
            together = [commit for writer in writers for commit in by_writer.pop(writer)]
            by_writer[Writer(engine, applications=len(writers))] = together
    found = [_history(writer, commits, target_bytes) for writer, commits in by_writer.items()]
    return sorted(found, key=lambda one: (-one.files, str(one.writer)))


def _commit_of(snapshot: SnapshotInfo) -> _Commit | None:
    files = _number(snapshot.summary, "added-data-files")
    if snapshot.is_compaction or not files:
        return None
    return _Commit(
        snapshot.timestamp_ms,
        files,
        _number(snapshot.summary, "added-files-size"),
        min(files, max(1, _number(snapshot.summary, "changed-partition-count"))),
    )


def _history(writer: Writer, commits: Sequence[_Commit], target_bytes: int) -> WriterHistory:
    times = sorted(commit.timestamp_ms for commit in commits)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return WriterHistory(
        writer=writer,
        commits=len(commits),
        files=sum(commit.files for commit in commits),
        bytes=sum(commit.bytes for commit in commits),
        # A file belongs to one partition, so a commit adds at least one file for each.
        least_files=sum(max(commit.partitions, ceil(commit.bytes / target_bytes)) for commit in commits),
        partitions=sum(commit.partitions for commit in commits),
        most_partitions=max(commit.partitions for commit in commits),
        interval_ms=round(median(gaps)) if gaps else None,
    )


def _number(summary: Mapping[str, str], name: str) -> int:
    text = summary.get(name, "")
    return int(text) if text.isdecimal() else 0
