"""Measures the memory of this process, and asks how much it may have."""

import resource
import sys

_COPIES = 8  # rows are in memory a few times while they are read and written, and libraries take their share


def rows_within(limit: int) -> int:
    """Returns how much memory the rows of a task may take in a process that may have `limit` bytes of addresses."""
    return limit // _COPIES


def peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_limit() -> int | None:
    """Returns how many bytes of address space this process may have, or None if nobody limits it.

    Spark sets the limit of its Python workers by `spark.executor.pyspark.memory`.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit
