"""A function is killed at random moments, and invoked again: it ends, every row is there once, nothing is left.

TEST_LAMBDA_MB is the size of the table, TEST_LAMBDA_KILLS the number of kills, and TEST_LAMBDA_SECONDS the time limit
of an invocation. TEST_LAMBDA_MEMORY is the size of the function in MB, which then gets no more of this machine's memory
and cores than Lambda gives. `make test-lambda` takes 2 GB, 50 kills, 60 seconds and 320 MB, which is 0.18 of a core.
A function that may copy row groups as bytes ends in the first seconds, so TEST_LAMBDA_MODE lets it encode them.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.table import Table

from tests.builders.control import chunks, make_control
from tests.seed import SEED
from tests.serverless.functions import environment_of
from tests.servers.control_groups import ControlGroup
from tests.servers.lambda_runtime import Invocation, LambdaFunction
from tidyberg.model.sizes import MB
from tidyberg.model.table import TableRef
from tidyberg.serverless.limits import MB_PER_CORE, cores_of
from tidyberg.testing import Warehouse
from tidyberg.testing.reading import local_path

SIZE_MB = int(os.environ.get("TEST_LAMBDA_MB", "16"))
KILLS = int(os.environ.get("TEST_LAMBDA_KILLS", "3"))
SECONDS = float(os.environ.get("TEST_LAMBDA_SECONDS", "120"))
MEMORY_MB = int(os.environ.get("TEST_LAMBDA_MEMORY", "0"))  # 0: all of this machine
MODE = os.environ.get("TEST_LAMBDA_MODE", "auto")
EVENT = {"tables": ["db.readings"], "options": {"strategy": "full", "mode": MODE}}
REF = TableRef("lab", ("db",), "readings")
FILES, GROUPS = 96, 16
ROW_BYTES = 40  # of a file: random numbers do not compress, and texts hardly
MOST_INVOCATIONS = 40  # in a row without a kill: then it would never end


def readings(number: int) -> pa.Table:
    rows, generator = SIZE_MB * MB // FILES // ROW_BYTES, np.random.default_rng(number)
    numbers = generator.integers(0, 2**62, (4, rows))
    texts = pc.cast(pa.array(generator.integers(0, 10**9, rows)), pa.string())
    return pa.table([*map(pa.array, numbers), texts], ["id", "taken", "low", "high", "text"])


@dataclass
class Killed:
    """One table, the function that compacts it, and what every state of the table must hold."""

    warehouse: Warehouse
    function: LambdaFunction
    table: Table
    limits: ControlGroup | None = None
    duration: float = 8.0  # the longest time after which an invocation is killed
    kills: int = 0
    seconds: list[float] = field(default_factory=list)
    expected: tuple[int, int] = (0, 0)
    original: frozenset[str] = frozenset()
    metadata_location: str = ""

    def __post_init__(self) -> None:
        self.expected = self.digest()
        self.original = frozenset(self.warehouse.files_on_disk(self.table))
        self.metadata_location = self.table.metadata_location

    def digest(self) -> tuple[int, int]:
        """The number of rows, and the sum of their hashes, as DuckDB reads the live files."""
        paths = [local_path(file.path) for file in self.warehouse.live_files(self.table)]
        assert len(paths) == len(set(paths)), "no file is live twice"
        with duckdb.connect(config={"threads": 1, "memory_limit": "1GB"}) as reader:
            count, total = reader.execute(
                "SELECT count(*), sum(hash(id, taken, low, high, text)) FROM read_parquet($1)", [paths]
            ).fetchall()[0]
        return int(count), int(total)

    def check(self) -> None:
        """No commit has lost or doubled a row, and each was made once."""
        metadata = self.table.refresh().metadata
        totals = {s.summary["total-records"] for s in metadata.snapshots if s.summary is not None}
        assert str(self.expected[0]) in totals
        replaced = [s for s in metadata.snapshots if s.summary and s.summary.operation.value == "replace"]
        for snapshot in replaced:
            assert snapshot.summary is not None
            assert snapshot.summary["total-records"] == str(self.expected[0])
        committed = chunks(self.table)
        assert len(committed) == len(set(committed)) == len(replaced)
        if SIZE_MB <= 64:
            assert self.digest() == self.expected

    def invoke(self, kill_after: float | None = None) -> Invocation:
        began = time.monotonic()
        done = self.function.invoke(EVENT, SECONDS, kill_after)
        if done.killed:
            self.kills += kill_after is not None
            self.duration *= 1.05  # it was not done yet: look a little later next time
        else:
            assert done.error is None, done.error
            (report,) = done.answer["tables"]
            assert report["message"]
            assert done.answer["finished"] is (report["left"]["groups"] == 0), report
            self.seconds.append(time.monotonic() - began)
            self.duration = max(2.0, min(self.duration, self.seconds[-1]))
        self.check()
        return done

    def finish(self) -> int:
        """Invoke it without kills until it is done. Returns how often that was."""
        for number in range(1, MOST_INVOCATIONS):
            done = self.invoke()
            if done.answer is not None and done.answer["finished"]:
                return number
        raise AssertionError(f"not finished after {MOST_INVOCATIONS} invocations")

    def start_over(self) -> None:
        """Make the table untidy again: the small files are still there, and so is the metadata of that time."""
        assert self.digest() == self.expected
        for path in self.warehouse.files_on_disk(self.table) - self.original:
            Path(path).unlink()
        self.warehouse.catalog.drop_table("db.readings")
        self.table = self.warehouse.catalog.register_table("db.readings", self.metadata_location)


@pytest.fixture(params=["one store for all sandboxes", "a store in each sandbox"])
def killed(request: pytest.FixtureRequest, warehouse: Warehouse, tmp_path: Path) -> Iterator[Killed]:
    properties = {"write.target-file-size-bytes": str(SIZE_MB * MB // GROUPS)}
    table = warehouse.create_table("db.readings", readings(0).schema, properties=properties)
    warehouse.append_files(table, FILES, rows=readings, files_per_commit=FILES // 4)
    environment = environment_of(warehouse, tmp_path / "state")
    fresh = request.param == "a store in each sandbox"
    with ExitStack() as stack:
        limits = stack.enter_context(ControlGroup(MEMORY_MB, cores_of(MEMORY_MB))) if MEMORY_MB else None
        memory = MEMORY_MB or MB_PER_CORE
        function = LambdaFunction(tmp_path, environment, memory, fresh_homes=fresh, forked=True, limits=limits)
        yield Killed(warehouse, stack.enter_context(function), table, limits=limits)


@pytest.mark.slow
@pytest.mark.unwatched  # another process writes
@pytest.mark.timeout(14_400)
def test_a_function_that_is_killed_at_random_moments_loses_nothing_and_doubles_nothing(killed: Killed) -> None:
    rng = random.Random(SEED)
    invocations = killed.finish()
    assert len(killed.warehouse.live_files(killed.table)) <= FILES // 3
    took = ", ".join(f"{seconds:.0f} s" for seconds in killed.seconds)
    sys.stdout.write(f"\n{SIZE_MB} MB in {invocations} invocations of at most {SECONDS:g} s: {took}\n")
    sys.stdout.flush()
    killed.start_over()
    while killed.kills < KILLS:
        done = killed.invoke(rng.uniform(0.0, killed.duration))
        if done.answer is not None and done.answer["finished"]:
            killed.start_over()
    killed.finish()
    assert killed.digest() == killed.expected
    table, warehouse = killed.table, killed.warehouse
    left = warehouse.files_on_disk(table) - warehouse.referenced_files(table)
    if not killed.function.fresh_homes:
        assert not left
        return
    with make_control(warehouse) as control:  # the store of a killed sandbox is gone, so its outputs are orphans
        found = {local_path(stray.path) for stray in control.scan(REF).strays}
    assert {path for path in left if path.endswith(".parquet")} == found
