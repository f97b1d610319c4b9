"""Starts work on threads of its own before the results are needed."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

FILES_AHEAD = 4

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def prefetched(
    work: Callable[[Item], Outcome], items: Iterable[Item], ahead: int = FILES_AHEAD
) -> Generator[Outcome, None, None]:
    """Yields the result of `work` for each item, in order, and starts up to `ahead` items early to hide latency.

    With `ahead=0` it starts no threads, for storage that has no latency to hide.
    """
    if not ahead:
        yield from map(work, items)
        return
    waiting: deque[Future[Outcome]] = deque()
    with ThreadPoolExecutor(max_workers=ahead, thread_name_prefix="tidyberg-open") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for opening in waiting:
                opening.cancel()
