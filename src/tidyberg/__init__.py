"""Maintains Apache Iceberg tables: plans, compacts and audits them, and does all other maintenance.

The functions are imported on first use. Executors import this package only for its kernels, and may lack PyIceberg.
"""

from typing import TYPE_CHECKING, Any

from tidyberg._version import __version__

if TYPE_CHECKING:
    from tidyberg.python_api import (
        advise,
        audit,
        compact,
        expire,
        maintain,
        metadata_files,
        plan,
        plan_maintenance,
        plan_manifests,
        plan_orphans,
        policy_report,
        remove_orphans,
        rewrite_manifests,
        stop_spark,
        storage_report,
    )

__all__ = [
    "__version__",
    "advise",
    "audit",
    "compact",
    "expire",
    "maintain",
    "metadata_files",
    "plan",
    "plan_maintenance",
    "plan_manifests",
    "plan_orphans",
    "policy_report",
    "remove_orphans",
    "rewrite_manifests",
    "stop_spark",
    "storage_report",
]


def __getattr__(name: str) -> Any:
    if name in __all__ and name != "__version__":
        from tidyberg import python_api

        return getattr(python_api, name)
    raise AttributeError(f"module 'tidyberg' has no attribute {name!r}")
