"""Packs the kernels into a zip file that Spark ships to executors, so that a cluster need not install tidyberg."""

import hashlib
import io
import zipfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

_FILES = (
    "__init__.py",
    "_version.py",
    "curves.py",
    "errors.py",
    "failures.py",
    "varints.py",
    "model/__init__.py",
    "model/manifest.py",
    "model/shuffle.py",
    "model/sort_key.py",
    "model/task.py",
    "model/task_input.py",
    "execute/__init__.py",
)
_ROOMS = ("storage", "parquet", "avro", "manifests", "execute/kernel")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed time, so that the same sources give the same bytes


def write_archive(directory: Path) -> Path:
    """Write the archive. Its name contains a digest, so that different versions have different names."""
    content = archive_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    path = directory / f"tidyberg_kernel_{digest}.zip"
    path.write_bytes(content)
    return path


def archive_bytes() -> bytes:
    root = resources.files("tidyberg")
    names = [*_FILES, *(f"{room}/{name}" for room in _ROOMS for name in _modules(root / room))]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            entry = zipfile.ZipInfo(f"tidyberg/{name}", _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, (root / name).read_bytes())
    return buffer.getvalue()


def _modules(directory: Traversable) -> list[str]:
    found = []
    for entry in directory.iterdir():
        if entry.is_dir():
            found += [f"{entry.name}/{name}" for name in _modules(entry)]
        elif entry.name.endswith(".py"):
            found.append(entry.name)
    return sorted(found)
