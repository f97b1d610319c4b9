"""A cache with a size limit, shared by the threads of a process, so that tasks share what they decode."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")


class SharedCache:
    """Drops the least recently used values. A value larger than the cache is returned but not kept."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], tuple[Value, int]]) -> Value:
        """Returns the value of a key. `make` returns the value and its size, and runs once for all waiting threads."""
        with self._lock:
            if key in self._entries:
                return self._use(key)  # type: ignore[no-any-return]
            gate = self._making.setdefault(key, threading.Lock())
        with gate:
            with self._lock:
                if key in self._entries:  # another thread made it while this one waited
                    return self._use(key)  # type: ignore[no-any-return]
            try:
                value, size = make()
                with self._lock:
                    self._keep(key, value, size)
            finally:
                with self._lock:
                    self._making.pop(key, None)
            return value

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _use(self, key: Hashable) -> Any:
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        if size > self._limit or key in self._entries:
            return
        self._entries[key] = (value, size)
        self._bytes += size
        while self._bytes > self._limit:
            _, (_, freed) = self._entries.popitem(last=False)
            self._bytes -= freed
