"""Reads the manifests of a snapshot: here, or elsewhere where they are large, and there only what a plan must see."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter, thread_time

from tidyberg.manifests.entries import ManifestEntries, ManifestError, read_entries
from tidyberg.manifests.text_filter import build_filter
from tidyberg.model.manifest import ManifestInfo, RestRule
from tidyberg.model.table import Pinned
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.partitions import PartitionIndex
from tidyberg.observe.resting import Resting, Select, but_for_deletes, but_for_others, unpartitioned
from tidyberg.storage.table_files import damaged

_PATIENCE_SECONDS = 0.2  # for local files in all: a busy machine makes everybody wait a little
_FETCH_THREADS = 8  # hides the latency of object storage
_FETCH_AHEAD = 16  # bundles: bounds the raw manifests in memory
_BUNDLE_BYTES = 64 * 1024  # what is small is fetched one after the other by one thread: handing over takes longer

ReadFile = Callable[[str], bytes]
Found = Iterator[tuple[str, ManifestEntries]]
ReadManifests = Callable[[Sequence[ManifestInfo], RestRule | None], Found]


@dataclass(frozen=True)
class Elsewhere:
    """Who reads manifests that are together larger than some number of bytes, and what may rest of them."""

    above_bytes: int
    read: ReadManifests
    resting: Resting | None = None


def read_manifests(
    near: ReadFile,
    pinned: Pinned,
    manifests: Sequence[ManifestInfo],
    cache: ManifestCache | None,
    elsewhere: Elsewhere | None,
) -> list[ManifestEntries]:
    """In the order of the manifests."""
    held = {info.path: cache.get(info.path) if cache is not None else None for info in manifests}
    contents = {path: entries for path, entries in held.items() if entries is not None}
    missing = list({info.path: info for info in manifests if info.path not in contents}.values())

    def take(found: Found) -> None:
        for path, entries in found:
            contents[path] = entries
            if cache is not None and entries.resting is None:
                cache.put(path, entries)

    if elsewhere is None or _bytes(missing) <= elsewhere.above_bytes:
        take(_read_here(near, missing))
    elif elsewhere.resting is None or len(held) < len(manifests):
        take(elsewhere.read(missing, None))
    else:
        deletes = [info for info in missing if info.holds_deletes]
        data = [info for info in missing if not info.holds_deletes]
        is_far = _bytes(deletes) > elsewhere.above_bytes
        take(elsewhere.read(deletes, None) if is_far else _read_here(near, deletes))
        rule = but_for_deletes(
            elsewhere.resting.rule,
            [(info, contents[info.path]) for info in manifests if info.holds_deletes],
            unpartitioned(pinned.specs),
        )
        if elsewhere.resting.select is not None:
            rule = _but_for_others(pinned, data, rule, elsewhere.read, elsewhere.resting.select)
        contents |= dict(elsewhere.read(data, rule))
    return [contents[info.path] for info in manifests]


def _but_for_others(
    pinned: Pinned,
    manifests: Sequence[ManifestInfo],
    rule: RestRule,
    read: ReadManifests,
    select: Select,
) -> RestRule:
    """Which partitions there are is only known when the manifests were read once: files are counted first."""
    infos = {info.path: info for info in manifests}
    counted = [
        (infos[path], ManifestEntries(entries.partition_columns, entries.resting))
        for path, entries in read(manifests, replace(rule, selected=build_filter([])))
        if entries.resting is not None
    ]
    index = PartitionIndex(pinned.specs, pinned.schema)
    positions = index.positions([info.spec_id for info, _ in counted], [entries for _, entries in counted])
    return but_for_others(rule, counted, positions.tolist(), select(index.partitions))


def _bytes(manifests: Iterable[ManifestInfo]) -> int:
    return sum(info.length for info in manifests)


def _read_here(near: ReadFile, manifests: Sequence[ManifestInfo]) -> Found:
    """This thread decodes, whoever fetches: decoding on many would only pass the lock around."""
    contents = fetch_manifests(near, manifests)
    try:
        yield from read_entries(
            (info.path, _whole(raw, info), info.holds_deletes) for info, raw in zip(manifests, contents, strict=True)
        )
    except ManifestError as error:
        raise damaged(error.name, f"as a manifest, {error}") from error


def fetch_manifests(read: ReadFile, manifests: Sequence[ManifestInfo]) -> Iterator[bytes]:
    """Their bytes, in order: by this thread while it need not wait, else by threads that read a few ahead."""
    fetched_here = 0
    for content in _while_quick(read, manifests):
        fetched_here += 1
        yield content
    yield from _fetch_ahead(read, manifests[fetched_here:])


def _while_quick(read: ReadFile, manifests: Sequence[ManifestInfo]) -> Iterator[bytes]:
    """Of a local disk, until it turns out to be a slow one: threads take thrice the time, handing the lock over."""
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
