"""Caches manifests by path. A manifest never changes, so its path identifies it."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from tidyberg.manifests.entries import ManifestEntries


class ManifestCache:
    """Bounded in bytes. The least recently used entries are dropped first, and those older than the time to live.

    The time to live only frees memory in long-lived processes: an old entry is still correct.
    """

    def __init__(
        self,
        ttl_seconds: float = 300.0,
        max_bytes: int = 256 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl_seconds = ttl_seconds
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[float, ManifestEntries]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._held)

    def get(self, path: str) -> ManifestEntries | None:
        with self._lock:
            found = self._held.get(path)
            if found is None:
                return None
            stored, entries = found
            if self._clock() - stored >= self._ttl_seconds:
                self._remove(path)
                return None
            self._held.move_to_end(path)
            return entries

    def put(self, path: str, entries: ManifestEntries) -> None:
        with self._lock:
            if path in self._held:
                self._remove(path)
            if entries.nbytes > self._max_bytes:
                return
            self._held[path] = (self._clock(), entries)
            self._bytes += entries.nbytes
            while self._bytes > self._max_bytes:
                self._remove(next(iter(self._held)))

    def _remove(self, path: str) -> None:
        _, entries = self._held.pop(path)
        self._bytes -= entries.nbytes
