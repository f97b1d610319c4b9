"""Maintains Apache Iceberg tables: plans, compacts and audits them, and expires their snapshots.

The functions are imported on first use. Executors import this package only for its kernels, and may lack PyIceberg.
"""

from typing import TYPE_CHECKING, Any

from tidyberg._version import __version__

if TYPE_CHECKING:
    from tidyberg.app import audit, compact, expire, metadata_files, plan, stop_spark

__all__ = ["__version__", "audit", "compact", "expire", "metadata_files", "plan", "stop_spark"]


def __getattr__(name: str) -> Any:
    if name in ("audit", "compact", "expire", "metadata_files", "plan", "stop_spark"):
        from tidyberg import app

        return getattr(app, name)
    raise AttributeError(f"module 'tidyberg' has no attribute {name!r}")
