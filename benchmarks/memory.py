"""Measures the CPU time and peak memory of a process and its descendants. Shared pages count once (PSS)."""

import mmap
import threading
from pathlib import Path
from types import TracebackType

import psutil

_EVERY_SECONDS = 0.2
# To count shared pages, the kernel walks every mapping, and processes that allocate memory wait. Twice a second, this
# cost half a second of a rewrite of four. So we count only when resident memory has grown beyond the last maximum.
_WORTH_COUNTING = 1.05  # growth of resident memory since the last count

_TOUCHED_BYTES = 4 * 1024**3  # more than a side takes, with what it writes to disk


def touch_memory() -> None:
    """Writes to free memory, and frees it again.

    A virtual machine gets its memory from its host when it first uses it. That took up to a third of the CPU time of a
    sort, and only of the side that ran first, because the other one found memory that had been used.
    """
    size = min(_TOUCHED_BYTES, psutil.virtual_memory().available // 4)
    with mmap.mmap(-1, size) as memory:
        for first in range(0, size, mmap.PAGESIZE):
            memory[first] = 1


class PeakMemory:
    """Samples in a thread while the block runs. `peak_bytes` is the highest sum."""

    def __init__(self, pid: int, every_seconds: float = _EVERY_SECONDS) -> None:
        self._process = psutil.Process(pid)
        self._every_seconds = every_seconds
        self._highest_resident = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.peak_bytes = 0
        self.worker_bytes = 0  # of the largest process that is neither the first one nor a JVM

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def cpu_seconds(self) -> float:
        """Returns the CPU seconds of all processes so far, including those that have ended."""
        return sum(map(_cpu, self.family()))

    def family(self) -> list[psutil.Process]:
        """Returns the process and its descendants."""
        return [self._process, *self._process.children(recursive=True)]

    def _sample(self) -> None:
        while not self._done.wait(self._every_seconds):
            try:
                family = self.family()
            except psutil.NoSuchProcess:
                return
            resident = sum(map(_resident, family))
            if resident < _WORTH_COUNTING * self._highest_resident:
                continue
            self._highest_resident = resident
            sizes = [_pss(process) for process in family]
            workers = [size for process, size in zip(family[1:], sizes[1:], strict=True) if not _is_jvm(process)]
            self.peak_bytes = max(self.peak_bytes, sum(sizes))
            self.worker_bytes = max(self.worker_bytes, *workers, 0)


def _pss(process: psutil.Process) -> int:
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # the process has ended
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _is_jvm(process: psutil.Process) -> bool:
    try:
        return "java" in process.name()
    except psutil.NoSuchProcess:
        return False


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
