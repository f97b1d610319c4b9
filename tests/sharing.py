"""Distributes tests to processes: tests that need the same server stay together, so that it starts once."""

from xdist.scheduler.loadscope import LoadScopeScheduling

TOGETHER = {
    "java": (
        "tests/oracle/",
        "tests/machine/",
        "tests/matrix/test_java_cells.py",
        "tests/observe/test_java_tables.py",
        "tests/verify/test_end_to_end.py",
    ),
    "rest": ("tests/rest/",),
    "s3": ("tests/s3/",),
    "spark": ("tests/execute/test_spark_local.py",),
    "cluster": ("tests/execute/test_spark_cluster.py",),
}


class ByServer(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """Distributes tests one by one, except those that share a server. The largest group comes first."""

    def _split_scope(self, nodeid: str) -> str:
        for server, places in TOGETHER.items():
            if nodeid.startswith(places):
                return server
        return nodeid
