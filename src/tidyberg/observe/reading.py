"""Reads the manifests of a snapshot: in this process, or remotely if they are large.

A remote reader returns only the entries that a plan must see, and counts the others.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter, thread_time

from tidyberg.manifests.entries import ManifestEntries, ManifestError, read_entries
from tidyberg.manifests.text_filter import build_filter
from tidyberg.model.manifest import CountedFileRule, ManifestInfo
from tidyberg.model.table import Pinned
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.counted_files import CountingRule, Select, except_deleted, except_selected, unpartitioned
from tidyberg.observe.partitions import PartitionIndex
from tidyberg.storage.table_files import damaged

_PATIENCE_SECONDS = 0.2  # in total for local files: a busy machine makes every read wait a little
_FETCH_THREADS = 8  # hides the latency of object storage
_FETCH_AHEAD = 16  # bundles: bounds the raw manifests in memory
_BUNDLE_BYTES = 64 * 1024  # one thread fetches small manifests in turn: passing them between threads takes longer

ReadFile = Callable[[str], bytes]
Found = Iterator[tuple[str, ManifestEntries]]
ReadManifests = Callable[[Sequence[ManifestInfo], CountedFileRule | None], Found]


@dataclass(frozen=True)
class RemoteReader:
    """Reads manifests that are larger than `above_bytes` in total, for example on Spark."""

    above_bytes: int
    read: ReadManifests
    counting: CountingRule | None = None  # None: every entry is returned


def read_manifests(
    read_file: ReadFile,
    pinned: Pinned,
    manifests: Sequence[ManifestInfo],
    cache: ManifestCache | None,
    remote: RemoteReader | None,
) -> list[ManifestEntries]:
    """Returns the entries in the order of the manifests."""
    held = {info.path: cache.get(info.path) if cache is not None else None for info in manifests}
    contents = {path: entries for path, entries in held.items() if entries is not None}
    missing = list({info.path: info for info in manifests if info.path not in contents}.values())

    def take(found: Found) -> None:
        for path, entries in found:
            contents[path] = entries
            if cache is not None and entries.counted_files is None:
                cache.put(path, entries)

    if remote is None or _bytes(missing) <= remote.above_bytes:
        take(_read_here(read_file, missing))
    elif remote.counting is None or len(held) < len(manifests):
        take(remote.read(missing, None))
    else:
        deletes = [info for info in missing if info.holds_deletes]
        data = [info for info in missing if not info.holds_deletes]
        is_remote = _bytes(deletes) > remote.above_bytes
        take(remote.read(deletes, None) if is_remote else _read_here(read_file, deletes))
        rule = except_deleted(
            remote.counting.rule,
            [(info, contents[info.path]) for info in manifests if info.holds_deletes],
            unpartitioned(pinned.specs),
        )
        if remote.counting.select is not None:
            rule = _except_selected(pinned, data, rule, remote.read, remote.counting.select)
        contents |= dict(remote.read(data, rule))
    return [contents[info.path] for info in manifests]


def _except_selected(
    pinned: Pinned,
    manifests: Sequence[ManifestInfo],
    rule: CountedFileRule,
    read: ReadManifests,
    select: Select,
) -> CountedFileRule:
    """Counts all files first, because the partitions are unknown until the manifests have been read once."""
    infos = {info.path: info for info in manifests}
    counted = [
        (infos[path], ManifestEntries(entries.partition_columns, entries.counted_files))
        for path, entries in read(manifests, replace(rule, selected=build_filter([])))
        if entries.counted_files is not None
    ]
    index = PartitionIndex(pinned.specs, pinned.schema)
    positions = index.positions([info.spec_id for info, _ in counted], [entries for _, entries in counted])
    return except_selected(rule, counted, positions.tolist(), select(index.partitions))


def _bytes(manifests: Iterable[ManifestInfo]) -> int:
    return sum(info.length for info in manifests)


def stream_entries(read_file: ReadFile, manifests: Sequence[ManifestInfo], only: tuple[str, ...]) -> Found:
    """Yields these columns of the live entries of each manifest, and keeps none of them. The order can differ."""
    return _read_here(read_file, manifests, only)


def _read_here(read_file: ReadFile, manifests: Sequence[ManifestInfo], only: tuple[str, ...] | None = None) -> Found:
    """Other threads may fetch, but only this one decodes: several would only wait for the interpreter lock."""
    contents = fetch_manifests(read_file, manifests)
    try:
        files = (
            (info.path, _whole(raw, info), info.holds_deletes) for info, raw in zip(manifests, contents, strict=True)
        )
        yield from read_entries(files, only)
    except ManifestError as error:
        raise damaged(error.name, f"as a manifest, {error}") from error


def fetch_manifests(read: ReadFile, manifests: Sequence[ManifestInfo]) -> Iterator[bytes]:
    """Yields their bytes in order. This thread reads while storage is fast; then a pool reads ahead."""
    fetched_here = 0
    for content in _while_quick(read, manifests):
        fetched_here += 1
        yield content
    yield from _fetch_ahead(read, manifests[fetched_here:])


def _while_quick(read: ReadFile, manifests: Sequence[ManifestInfo]) -> Iterator[bytes]:
    """Reads local files until the disk proves slow. On a fast disk, threads take three times as long."""
    waited = 0.0
    for info in manifests:
        if waited > _PATIENCE_SECONDS or not _is_local(info.path):
            return
        start, start_busy = perf_counter(), thread_time()
        content = read(info.path)
        waited += perf_counter() - start - (thread_time() - start_busy)
        yield content


def _is_local(path: str) -> bool:
    return path.startswith(("/", "file:"))


def _fetch_ahead(read: ReadFile, manifests: Sequence[ManifestInfo]) -> Iterator[bytes]:
    def read_all(bundle: Sequence[ManifestInfo]) -> list[bytes]:
        return [read(info.path) for info in bundle]

    bundles = _bundles(manifests)
    with ThreadPoolExecutor(_FETCH_THREADS, thread_name_prefix="manifests") as pool:
        waiting = deque(pool.submit(read_all, bundle) for bundle in islice(bundles, _FETCH_AHEAD))
        while waiting:
            fetched = waiting.popleft().result()
            waiting.extend(pool.submit(read_all, bundle) for bundle in islice(bundles, 1))
            yield from fetched


def _bundles(manifests: Sequence[ManifestInfo]) -> Iterator[Sequence[ManifestInfo]]:
    start = held = 0
    for number, info in enumerate(manifests):
        if number > start and held + info.length > _BUNDLE_BYTES:
            yield manifests[start:number]
            start, held = number, 0
        held += info.length
    if manifests:
        yield manifests[start:]


def _whole(raw: bytes, info: ManifestInfo) -> bytes:
    if len(raw) < info.length:
        raise damaged(info.path, f"it has {len(raw)} bytes, the manifest list says {info.length}")
    return raw
