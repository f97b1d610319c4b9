"""Who is running a job on this machine, and whether that process still lives."""

import os
import socket
from pathlib import Path

from tidyberg.model.job import Owner


def this_process() -> Owner:
    return Owner(_here(), os.getpid(), _start_time(os.getpid()) or 0.0)


def is_alive(owner: Owner) -> bool | None:
    """None: it runs on another machine, or its process cannot be looked at; then only its lease tells."""
    if owner.host != _here():
        return None
    started = _start_time(owner.pid)
    if started is not None:
        return started == owner.started
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return None
    return None if owner.started else True


def _here() -> str:
    """Where process numbers mean the same. Containers, and machines too, may have a host name in common, and process 1
    of another one is not dead because ours started at another time."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        numbers = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} {boot} {numbers}"


def _start_time(pid: int) -> float | None:
    """Clock ticks since boot at which the process started, where /proc tells; a zombie counts as gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return -1.0 if fields[0] in ("Z", "X") else float(fields[19])
