"""Advises how to prevent small files: which properties of the table, and which settings of its writers.

All of it comes from the table's properties and from the summaries of its snapshots. No file is read. Advice that is
followed disappears: a property that has the advised value is not advised again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tidyberg.model.advice import Advice, DailyCost, HistorySpan, PropertyAdvice, WriterAdvice, WriterHistory
from tidyberg.model.options import PlanOptions
from tidyberg.model.sizes import MB, format_size
from tidyberg.model.table import Pinned, SnapshotInfo
from tidyberg.model.words import plural
from tidyberg.planning.expiry import GC_ENABLED
from tidyberg.planning.file_sizes import DEFAULT_TARGET, TARGET_PROPERTY, FileSizes, resolve_sizes
from tidyberg.planning.overhead import DELETE_OLD_METADATA
from tidyberg.planning.price import Pricing
from tidyberg.planning.writer_settings import DISTRIBUTION, Cause, writer_settings
from tidyberg.planning.writers import writer_histories

CODEC = "write.parquet.compression-codec"
ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
KEPT_METADATA = "write.metadata.previous-versions-max"
APPLIED_AT = "tidyberg.advice.applied-at-ms"  # set with advised properties: earlier commits were made without them
DAY_MS = 86_400_000
MANY_METADATA_FILES = 1_000  # every metadata.json lists them all
_DEFAULT_KEPT_METADATA = 100
_ROW_GROUP = 128 * MB
_SMALLEST_ROW_GROUP, _LARGEST_ROW_GROUP = 16 * MB, 512 * MB
_CODECS = {
    "none": "files without compression take more storage and more requests to read",
    "uncompressed": "files without compression take more storage and more requests to read",
    "snappy": "zstd files are smaller",
    "gzip": "zstd files are about as small and faster to read",
}


@dataclass(frozen=True, slots=True)
class Adviser:
    pinned: Pinned
    options: PlanOptions
    pricing: Pricing
    now_ms: int
    window_ms: int  # older commits do not count

    def advise(self) -> Advice:
        span, snapshots = self._span()
        sizes = self._sizes
        histories = writer_histories(snapshots, sizes.target)
        causes = [self._cause(history, sizes) for history in histories]
        advised = [self._writer(cause, span) for cause in causes]
        advised.sort(key=lambda one: -(one.cost.dollars if one.cost is not None else 0.0))
        flagged = [cause for cause, small in zip(causes, map(self._is_small, causes), strict=True) if small]
        return Advice(self.pinned.table, tuple(self._properties(flagged)), tuple(advised), span)

    @property
    def _sizes(self) -> FileSizes:
        """The sizes that the table should have, which a bad target of its own does not change."""
        properties = dict(self.pinned.properties)
        for advice in self._target():
            properties[advice.name] = advice.advised
        return resolve_sizes(self.options, properties)

    def _span(self) -> tuple[HistorySpan, list[SnapshotInfo]]:
        snapshots = self.pinned.snapshots
        oldest = min((one.timestamp_ms for one in snapshots.values()), default=self.now_ms)
        applied_at = _number(self.pinned.properties.get(APPLIED_AT))
        since = max(self.now_ms - self.window_ms, oldest, 0 if applied_at is None else applied_at + 1)
        inside = [one for one in snapshots.values() if one.timestamp_ms >= since]
        commits = sum(not one.is_compaction for one in inside)
        is_cut = any(one.parent_id is not None and one.parent_id not in snapshots for one in snapshots.values())
        days = max(1.0, (self.now_ms - since) / DAY_MS)
        return HistorySpan(since, days, commits, is_cut, since_applied=applied_at == since - 1), inside

    def _cause(self, history: WriterHistory, sizes: FileSizes) -> Cause:
        spec = self.pinned.specs.get(self.pinned.default_spec_id)
        is_partitioned = spec is not None and not spec.is_unpartitioned()
        small = min(self.options.small_file_threshold, sizes.minimum)
        return Cause(history, self.pinned.properties, is_partitioned, sizes.target, small)

    def _is_small(self, cause: Cause) -> bool:
        """A few files a day are no problem, however small they are."""
        days = self._span()[0].days
        surplus = (cause.history.files - self._needed(cause.history, days, cause.target_bytes) * days) / days
        return cause.history.file_bytes < cause.small_bytes and surplus >= self.options.min_input_files

    def _writer(self, cause: Cause, span: HistorySpan) -> WriterAdvice:
        if not self._is_small(cause):
            return WriterAdvice(cause.history, makes_small_files=False)
        return WriterAdvice(cause.history, True, tuple(writer_settings(cause)), self._cost(cause, span.days))

    @staticmethod
    def _needed(history: WriterHistory, days: float, target_bytes: int) -> int:
        """Files that a day needs: enough for its bytes, and one for each partition that one commit changed."""
        return max(1, history.most_partitions, ceil(history.bytes / days / target_bytes))

    def _cost(self, cause: Cause, days: float) -> DailyCost:
        history, pricing = cause.history, self.pricing
        files = max(1, round(history.files / days))
        needed = min(files, self._needed(history, days, cause.target_bytes))
        work = pricing.work_of_group([round(history.file_bytes)] * files, needed, tasks=needed)
        compaction = pricing.price_job(work, (), 1)
        prices, resources = pricing.prices, pricing.resources
        core_second = resources.memory_gb / resources.cores * prices.compute_per_gb_second
        requests = (work.scan_requests_before - work.scan_requests_after) * prices.get_per_1000 / 1000
        return DailyCost(
            files=files,
            needed_files=needed,
            put_dollars=(files - needed) * prices.put_per_1000 / 1000,
            compaction_dollars=compaction.request_dollars + compaction.compute_dollars + compaction.storage_dollars,
            scan_dollars=max(0.0, requests + (files - needed) * pricing.calibration.seconds_per_file * core_second),
        )

    def _properties(self, flagged: Sequence[Cause]) -> list[PropertyAdvice]:
        return [
            *self._target(),
            *_codec(self.pinned.properties),
            *_row_group(self.pinned.properties),
            *_distribution(self.pinned.properties, flagged),
            *_metadata(self.pinned.properties),
        ]

    def _target(self) -> list[PropertyAdvice]:
        current = self.pinned.properties.get(TARGET_PROPERTY)
        wanted = self.options.target_file_size
        number = _number(current)
        if wanted is not None:
            if number == wanted or (current is None and wanted == DEFAULT_TARGET):
                return []
            why = f"compaction makes files of {format_size(wanted)}, and writers should too"
            return [PropertyAdvice(TARGET_PROPERTY, current, str(wanted), why)]
        if current is None or (number is not None and number >= self.options.small_file_threshold):
            return []
        smallest = format_size(self.options.small_file_threshold)
        why = f"a file that has this size is still a small one, below {smallest}"
        if number is None:
            why = "the value is not a number of bytes"
        return [PropertyAdvice(TARGET_PROPERTY, current, str(DEFAULT_TARGET), why)]


def _codec(properties: Mapping[str, str]) -> list[PropertyAdvice]:
    current = properties.get(CODEC)
    why = _CODECS.get((current or "").strip().lower())
    return [] if why is None else [PropertyAdvice(CODEC, current, "zstd", why)]


def _row_group(properties: Mapping[str, str]) -> list[PropertyAdvice]:
    current = properties.get(ROW_GROUP_BYTES)
    size = _number(current)
    if current is None or (size is not None and _SMALLEST_ROW_GROUP <= size <= _LARGEST_ROW_GROUP):
        return []
    why = "the value is not a number of bytes"
    if size is not None and size < _SMALLEST_ROW_GROUP:
        why = "small row groups compress badly, and each takes its own requests"
    elif size is not None:
        why = "readers and writers hold a row group in memory, and one task reads it"
    return [PropertyAdvice(ROW_GROUP_BYTES, current, str(_ROW_GROUP), why)]


def _distribution(properties: Mapping[str, str], flagged: Sequence[Cause]) -> list[PropertyAdvice]:
    current = properties.get(DISTRIBUTION)
    helped = [cause for cause in flagged if cause.mode_helps]
    if not helped:
        return []
    files, least = (sum(getattr(cause.history, name) for cause in helped) for name in ("files", "least_files"))
    writers = ", ".join(str(cause.history.writer) for cause in helped[:3])
    why = f"several tasks write to the same partition: {plural(files, 'file')} of {writers} where {least:,} would do"
    return [PropertyAdvice(DISTRIBUTION, current, "hash", why)]


def _metadata(properties: Mapping[str, str]) -> list[PropertyAdvice]:
    """Tables that share files with others must not delete them, so nothing is advised for these."""
    if properties.get(GC_ENABLED, "true").strip().lower() != "true":
        return []
    found = []
    current = properties.get(DELETE_OLD_METADATA)
    if (current or "false").strip().lower() != "true":
        why = "every commit leaves a metadata.json behind that nothing deletes"
        found.append(PropertyAdvice(DELETE_OLD_METADATA, current, "true", why))
    kept = properties.get(KEPT_METADATA)
    number = _number(kept)
    if kept is not None and (number is None or number > MANY_METADATA_FILES):
        why = "every metadata.json lists all previous ones that the table keeps"
        found.append(PropertyAdvice(KEPT_METADATA, kept, str(_DEFAULT_KEPT_METADATA), why))
    return found


def _number(text: str | None) -> int | None:
    plain = (text or "").strip()
    return int(plain) if plain.isdecimal() else None
