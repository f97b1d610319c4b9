"""Describes the machine and the software that produced the figures, without its host name or paths."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.java import PACKAGES

_LIBRARIES = ("tidyberg", "pyspark", "pyarrow", "pyiceberg", "duckdb")


def machine_facts(directory: Path) -> dict[str, Any]:
    """Returns the facts. `directory` is where the tables are."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(psutil.virtual_memory().total / 1024**3),
        "disk": _file_system(directory.absolute()),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
        "iceberg_java": PACKAGES.split(",")[0].rpartition(":")[2],
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _file_system(directory: Path) -> str:
    """Returns the type of the filesystem, and whether the disk is rotational. A virtual disk may report either."""
    holding = [part for part in psutil.disk_partitions(all=True) if directory.is_relative_to(part.mountpoint)]
    found = max(holding, key=lambda part: len(part.mountpoint))
    turns = Path("/sys/class/block") / Path(found.device).name / "queue" / "rotational"
    kind = {"0": " on a solid-state disk", "1": " on a disk that says it turns"}
    return found.fstype + kind.get(turns.read_text().strip() if turns.exists() else "", "")
