from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from tests.builders.inventories import SCHEMA, column, inventory_of
from tidyberg.errors import DamagedFile
from tidyberg.manifests.entries import ManifestEntries
from tidyberg.observe.cache import ManifestCache
from tidyberg.testing import ForgedEntry, ForgedManifest, forge_static_table, local_path

ENTRIES = ManifestEntries((), pa.table({"path": ["x" * 96]}))
SIZE = ENTRIES.nbytes


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_entry_lives_as_long_as_its_time_to_live() -> None:
    clock = Clock()
    cache = ManifestCache(ttl_seconds=10, max_bytes=1000, clock=clock)
    cache.put("a", ENTRIES)
    clock.now = 9.9
    assert cache.get("a") is ENTRIES
    clock.now = 10.0
    assert cache.get("a") is None
    assert (len(cache), cache.nbytes) == (0, 0)


def test_the_least_recently_used_goes_first() -> None:
    cache = ManifestCache(ttl_seconds=10, max_bytes=2 * SIZE, clock=Clock())
    cache.put("a", ENTRIES)
    cache.put("b", ENTRIES)
    cache.get("a")
    cache.put("c", ENTRIES)
    assert [path for path in "abc" if cache.get(path)] == ["a", "c"]
    assert cache.nbytes == 2 * SIZE


def test_what_is_larger_than_the_cache_is_not_kept() -> None:
    cache = ManifestCache(ttl_seconds=10, max_bytes=SIZE - 1, clock=Clock())
    cache.put("a", ENTRIES)
    assert cache.get("a") is None


def test_putting_a_path_twice_counts_it_once() -> None:
    cache = ManifestCache(ttl_seconds=10, max_bytes=10 * SIZE, clock=Clock())
    cache.put("a", ENTRIES)
    cache.put("a", ENTRIES)
    assert (len(cache), cache.nbytes) == (1, SIZE)


def test_bytes_stay_true_when_threads_share_it() -> None:
    cache = ManifestCache(ttl_seconds=10, max_bytes=5 * SIZE)

    def work(offset: int) -> None:
        for number in range(300):
            cache.put(str((number * offset) % 11), ENTRIES)
            cache.get(str(number % 11))

    threads = [Thread(target=work, args=(offset,)) for offset in (1, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.nbytes == len(cache) * SIZE <= 5 * SIZE


def test_a_cached_manifest_is_not_read_again(tmp_path: Path) -> None:
    manifests = [ForgedManifest([ForgedEntry(f"f{number}")]) for number in range(3)]
    table = forge_static_table(tmp_path, manifests, schema=SCHEMA)
    cache = ManifestCache(ttl_seconds=60, max_bytes=10**6)
    first = inventory_of(table, cache=cache)
    assert len(cache) == 3
    for manifest in first.manifests:
        Path(local_path(manifest.path)).unlink()
    assert column(inventory_of(table, cache=cache), "path") == column(first, "path") == ["f0", "f1", "f2"]
    with pytest.raises(DamagedFile, match="does not exist"):
        inventory_of(table)
