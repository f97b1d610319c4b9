"""Distributes tests to processes: tests that need the same server stay together, so that it starts once."""

from xdist.scheduler.loadscope import LoadScopeScheduling

TOGETHER = {
    "java": (
        "tests/oracle/",
        "tests/machine/",
        "tests/matrix/test_java_cells.py",
        "tests/matrix/test_limits.py::test_java_has_the_limit_on_inputs",
        "tests/observe/test_java_tables.py",
        "tests/test_testing.py",
        "tests/verify/test_end_to_end.py",
    ),
    "rest": ("tests/rest/",),
    "s3": ("tests/s3/",),
    "archive": ("tests/execute/test_class_archive.py",),
    "spark": ("tests/execute/test_spark_local.py", "tests/execute/test_spark_shuffle.py"),
    "operator": ("tests/operator/test_reconcile.py",),
    "cluster": ("tests/execute/test_spark_cluster.py",),
}


def server_of(nodeid: str) -> str | None:
    return next((server for server, places in TOGETHER.items() if nodeid.startswith(places)), None)


class ByServer(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """Distributes tests one by one, except those that share a server. The largest group comes first."""

    def _split_scope(self, nodeid: str) -> str:
        return server_of(nodeid) or nodeid
