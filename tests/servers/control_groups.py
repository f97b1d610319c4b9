"""Limits the memory and the cores of a process by control groups, version 1 or 2, where this machine allows it."""

import uuid
from contextlib import suppress
from pathlib import Path

from tests.servers.server import ClosedAtExit

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


class ControlGroup(ClosedAtExit):
    """A memory limit and a share of the cores for all processes that are added."""

    def __init__(self, memory_mb: int, cores: float) -> None:
        name, quota = f"tidyberg-{uuid.uuid4().hex[:12]}", round(cores * _PERIOD_US)
        memory = str(memory_mb * 1024 * 1024)
        if (_ROOT / "cgroup.controllers").exists():
            limits = {_ROOT / name: {"memory.max": memory, "cpu.max": f"{quota} {_PERIOD_US}"}}
        else:
            limits = {
                _ROOT / "memory" / name: {"memory.limit_in_bytes": memory},
                _ROOT / "cpu" / name: {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota)},
            }
        self._directories = list(limits)
        for directory, values in limits.items():
            directory.mkdir()
            for file, value in values.items():
                (directory / file).write_text(value)

    def add(self, pid: int) -> None:
        for directory in self._directories:
            (directory / "cgroup.procs").write_text(str(pid))

    @property
    def peak_memory_bytes(self) -> int:
        """The most memory that was in use, including cached pages of files."""
        directory = self._directories[0]
        files = [directory / "memory.max_usage_in_bytes", directory / "memory.peak"]
        return next(int(file.read_text()) for file in files if file.exists())

    def close(self) -> None:
        for directory in self._directories:
            with suppress(OSError):  # a process that was killed a moment ago may still be listed
                directory.rmdir()
