"""Identifies the process that runs a job, and checks whether it is still alive."""

import os
import socket
from pathlib import Path

from tidyberg.model.job import Owner


def this_process() -> Owner:
    return Owner(_here(), os.getpid(), _start_time(os.getpid()) or 0.0)


def is_alive(owner: Owner) -> bool | None:
    """Whether the process of an owner is alive. None means unknown, and then only its lease counts."""
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
    """Identify the boot and the PID namespace, because a host name is not unique.

    Two containers or machines may share a host name, but their processes with pid 1 are different ones. The sandboxes
    of an AWS Lambda function may even share the boot, if they were restored from one snapshot. Each has its own log.
    """
    if log := os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME"):
        return f"lambda {log}"
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        numbers = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} {boot} {numbers}"


def _start_time(pid: int) -> float | None:
    """Return the start time of a process in clock ticks since boot, or None. A zombie has -1."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return -1.0 if fields[0] in ("Z", "X") else float(fields[19])
