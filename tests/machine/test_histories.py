"""Writers, compactions and crashes in any order leave the table with the rows of plain lists.

The number of histories is TEST_HISTORIES; TEST_SEED repeats a run whose seed was printed. A part of the
tables is kept for Java, which reads them all in one session.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.builders.java_tables import arrow_rows
from tests.machine.histories import Histories, Kept
from tests.machine.world import World
from tests.oracle.client import Oracle
from tests.seed import SEED
from tidyberg.testing import Warehouse

EXAMPLES = int(os.environ.get("TEST_HISTORIES", "16"))
TELLING = 30  # histories: in fewer, what is rare may not happen
FOR_JAVA = max(8, EXAMPLES // 10)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    with Warehouse(tmp_path_factory.mktemp("histories")) as opened:
        yield opened


@pytest.fixture(scope="module")
def kept(lab: Warehouse) -> list[Kept]:
    """The tables that were kept from all histories; those in which most was compacted."""
    found: list[Kept] = []

    class Run(Histories):
        warehouse = lab
        happened: ClassVar[Counter[str]] = Counter()

        @staticmethod
        def keep(world: World, commits: int) -> bool:
            if commits < 2 or len(found) >= FOR_JAVA:
                return False
            found.append(Kept(world.name, world.expected(), commits))
            return True

    run_state_machine_as_test(
        seed(SEED)(Run),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=6,
            phases=[Phase.generate],  # a history is short enough to be read, and making it shorter takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(dict(Run.happened))  # noqa: T201
    assert Run.happened["committed"] > EXAMPLES / 4, "most histories compact something"
    if EXAMPLES >= TELLING:
        assert Run.happened["groups copied"] > EXAMPLES / 15, "and some copy something"
        assert Run.happened["groups encoded instead"], "where files are older than the schema, the worker sees it"
    return found


@pytest.mark.slow
def test_every_history_ends_with_the_rows_it_should(kept: list[Kept]) -> None:
    assert kept, "some were compacted twice"


@pytest.mark.slow
def test_java_reads_what_histories_left(kept: list[Kept], lab: Warehouse, oracle: Oracle) -> None:
    java = oracle.attach(lab)
    for table in kept:
        loaded = lab.catalog.load_table(f"db.{table.name}")
        assert lab.rows(loaded) == table.rows
        assert java.rows(f"db.{table.name}") == arrow_rows(loaded), table.name
