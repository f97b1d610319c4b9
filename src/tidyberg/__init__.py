"""tidyberg keeps Apache Iceberg tables tidy.

Names load on first use: executors import this package for its kernels alone and must not need PyIceberg.
"""

from typing import TYPE_CHECKING, Any

from tidyberg._version import __version__

if TYPE_CHECKING:
    from tidyberg.app import audit, compact, plan, stop_spark

__all__ = ["__version__", "audit", "compact", "plan", "stop_spark"]


def __getattr__(name: str) -> Any:
    if name in ("audit", "compact", "plan", "stop_spark"):
        from tidyberg import app

        return getattr(app, name)
    raise AttributeError(f"module 'tidyberg' has no attribute {name!r}")
