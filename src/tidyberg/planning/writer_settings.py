"""Chooses the settings with which a writer would add fewer and larger files.

A commit adds too many files if several tasks write to the same partition, or if the writer commits before enough rows
are there. The first is cured by distributing rows among tasks, the second by committing less often.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from tidyberg.model.advice import WriterHistory, WriterSetting
from tidyberg.model.sizes import MB, format_size
from tidyberg.model.words import plural
from tidyberg.planning.writers import FLINK, KAFKA_CONNECT, SPARK

DISTRIBUTION = "write.distribution-mode"
SCATTERED = 2.0  # a commit adds so many times more files than it needs
LONGEST_INTERVAL_MS = 3_600_000  # readers of a stream do not want to wait longer
MANY_PARTITIONS = 10
_MINUTE_MS = 60_000
_TIDY_MINUTES = (1, 2, 5, 10, 15, 20, 30, 60)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the files of a writer are small, and what would help."""

    history: WriterHistory
    properties: Mapping[str, str]  # of the table
    is_partitioned: bool
    target_bytes: int
    small_bytes: int

    @property
    def is_scattered(self) -> bool:
        return self.history.files >= SCATTERED * self.history.least_files

    @property
    def distribution_mode(self) -> str:
        return self.properties.get(DISTRIBUTION, "").strip().lower()

    @property
    def mode_helps(self) -> bool:
        """Hash distribution needs a partition to distribute by. Where no mode is set, Spark distributes anyway."""
        modes = {SPARK: ("none",), FLINK: ("", "none")}.get(self.history.writer.engine, ())
        return self.is_scattered and self.is_partitioned and self.distribution_mode in modes

    @property
    def longer_interval_ms(self) -> int | None:
        """The interval at which files would no longer be small, at most an hour. None: waiting does not help."""
        now = self.history.interval_ms
        file_bytes = self.history.bytes / self.history.least_files  # if each commit added as few files as it can
        if now is None or now >= LONGEST_INTERVAL_MS or not 0 < file_bytes < self.small_bytes:
            return None
        wanted = min(LONGEST_INTERVAL_MS, max(now, 1) * ceil(self.small_bytes / file_bytes))
        tidy = next(minutes for minutes in _TIDY_MINUTES if minutes * _MINUTE_MS >= wanted)
        return tidy * _MINUTE_MS

    def interval_why(self, interval_ms: int) -> str:
        history = self.history
        assert history.interval_ms is not None
        after = history.bytes / history.least_files * interval_ms / max(1, history.interval_ms)
        commits = f"it commits every {interval_words(history.interval_ms)} now"
        also = "with the rest of this advice, " if self.is_scattered else ""
        outcome = f"{also}files would have about {format_size(min(after, self.target_bytes))}"
        if after >= self.small_bytes:
            return f"{commits}; {outcome}"
        parts = round(history.partitions / history.commits)
        why = f" because a commit writes to {plural(parts, 'partition')}" if parts > MANY_PARTITIONS else ""
        return f"{commits}; {outcome}{why}, and compaction has to do the rest"

    def scattered_why(self) -> str:
        history = self.history
        return (
            f"its commits added {plural(history.files, 'file')} where {history.least_files:,} would do "
            f"({history.files / history.commits:.1f} in a commit)"
        )


class WriterAdviser(Protocol):
    def settings(self, cause: Cause) -> list[WriterSetting]: ...


class SparkAdviser:
    """Spark shuffles the rows of partitioned tables by default. Adaptive execution then sizes the tasks."""

    def settings(self, cause: Cause) -> list[WriterSetting]:
        found = []
        if cause.is_scattered and cause.is_partitioned and not cause.mode_helps:
            size = str(max(cause.target_bytes, 128 * MB))
            name = "spark.sql.iceberg.advisory-partition-size"
            found.append(WriterSetting("Spark session", name, size, cause.scattered_why()))
        elif cause.is_scattered and not cause.is_partitioned:
            why = f"{cause.scattered_why()}; without partitions, every task writes its own files"
            found.append(WriterSetting("Spark query", "hint", "/*+ REBALANCE */", why))
        return found + _interval(cause, "Spark job", "trigger or schedule", interval_words)


class FlinkAdviser:
    def settings(self, cause: Cause) -> list[WriterSetting]:
        found = []
        if cause.is_scattered and not cause.mode_helps:
            each = max(1, round(cause.history.least_files / cause.history.commits))
            found.append(WriterSetting("Flink sink", "write-parallelism", str(each), cause.scattered_why()))
        return found + _interval(cause, "Flink job", "execution.checkpointing.interval", interval_words)


class KafkaConnectAdviser:
    """The sink does not distribute rows: each of its tasks writes its own files."""

    def settings(self, cause: Cause) -> list[WriterSetting]:
        found = []
        if cause.is_scattered:
            each = max(1, round(cause.history.least_files / cause.history.partitions))
            why = f"{cause.scattered_why()}; every task of the connector writes its own files"
            found.append(WriterSetting("Kafka Connect connector", "tasks.max", str(each), why))
        return found + _interval(cause, "Kafka Connect connector", "iceberg.control.commit.interval-ms", str)


class OtherAdviser:
    def settings(self, cause: Cause) -> list[WriterSetting]:
        found = []
        if cause.is_scattered:
            value = plural(max(1, round(cause.history.least_files / cause.history.commits)), "file")
            found.append(WriterSetting("writer", "files in a commit", value, cause.scattered_why()))
        return found + _interval(cause, "writer", "time between commits", interval_words)


_ADVISERS: dict[str, WriterAdviser] = {
    SPARK: SparkAdviser(),
    FLINK: FlinkAdviser(),
    KAFKA_CONNECT: KafkaConnectAdviser(),
}
_OTHERS = OtherAdviser()


def writer_settings(cause: Cause) -> list[WriterSetting]:
    """Returns the settings of the writer itself. The properties of the table are advised for all writers together."""
    return _ADVISERS.get(cause.history.writer.engine, _OTHERS).settings(cause)


class _IntervalFormat(Protocol):
    def __call__(self, interval_ms: int, /) -> str: ...


def _interval(cause: Cause, place: str, name: str, formatted: _IntervalFormat) -> list[WriterSetting]:
    interval = cause.longer_interval_ms
    if interval is None:
        return []
    return [WriterSetting(place, name, formatted(interval), cause.interval_why(interval))]


def interval_words(interval_ms: int) -> str:
    if interval_ms < _MINUTE_MS:
        return f"{max(1, round(interval_ms / 1000))} s"
    if interval_ms < 2 * LONGEST_INTERVAL_MS:
        return f"{round(interval_ms / _MINUTE_MS)} min"
    return f"{round(interval_ms / 3_600_000)} h"
