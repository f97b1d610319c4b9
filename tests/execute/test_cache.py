"""The process's cache: values are made once, its size is limited, and the least recently used value is dropped."""

import threading
import time

import pytest

from tidyberg.execute.kernel.deletes.cache import SharedCache


class Maker:
    def __init__(self, size: int) -> None:
        self.made = 0
        self.size = size

    def __call__(self) -> tuple[int, int]:
        self.made += 1
        return self.made, self.size


def test_the_least_recently_used_value_is_dropped_when_the_cache_is_full() -> None:
    cache = SharedCache(100)
    first, second, third = Maker(40), Maker(40), Maker(40)
    cache.get("first", first)
    cache.get("second", second)
    cache.get("first", first)
    cache.get("third", third)
    assert cache.get("first", first) == 1
    assert cache.get("third", third) == 1
    assert cache.get("second", second) == 2


def test_a_value_larger_than_the_cache_is_returned_and_drops_nothing() -> None:
    cache = SharedCache(100)
    small, large = Maker(100), Maker(101)
    cache.get("small", small)
    assert [cache.get("large", large) for _ in range(2)] == [1, 2]
    assert cache.get("small", small) == 1


def test_bytes_freed_are_free_again() -> None:
    cache = SharedCache(100)
    makers = {number: Maker(50) for number in range(10)}
    for number, maker in makers.items():
        cache.get(number, maker)
    assert [cache.get(number, makers[number]) for number in (8, 9)] == [1, 1]
    cache.clear()
    assert cache.get(9, makers[9]) == 2
    assert cache.get(8, makers[8]) == 2
    assert cache.get(9, makers[9]) == 2


def test_threads_that_ask_at_the_same_time_make_a_value_once() -> None:
    cache = SharedCache(100)
    made = []

    def slow() -> tuple[str, int]:
        made.append(threading.get_ident())
        time.sleep(0.05)
        return "value", 1

    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(cache.get("key", slow))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["value"] * 8
    assert len(made) == 1


def test_a_failure_is_not_cached() -> None:
    cache = SharedCache(100)

    def fail() -> tuple[int, int]:
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        cache.get("key", fail)
    assert cache.get("key", Maker(1)) == 1
