"""Work that is begun before its outcome is needed, on threads of its own."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

FILES_AHEAD = 4

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def run_ahead(
    work: Callable[[Item], Outcome], items: Iterable[Item], ahead: int = FILES_AHEAD
) -> Generator[Outcome, None, None]:
    """What `work` makes of the items, in order, begun a few ahead: storage's latency hides behind the work.

    None ahead, where there is no latency to hide, spares the threads.
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
