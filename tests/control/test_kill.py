"""kill -9 at random moments, then run again: the table is intact, nothing is lost, nothing is left [I6, I7].

The number of kills is TEST_KILLS (inline) and TEST_SPARK_KILLS; `make test-kill` raises both.
"""

import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.control import AT_ONCE, chunks, make_control
from tests.builders.events_table import REF
from tests.builders.victim import compact
from tests.control.shapes import REGIONS, Shape, rows_of, untidy
from tests.seed import SEED
from tidyberg.errors import TidybergError
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import VerifyMode
from tidyberg.testing import Warehouse

INLINE_KILLS = int(os.environ.get("TEST_KILLS", "25"))
SPARK_KILLS = int(os.environ.get("TEST_SPARK_KILLS", "2"))
PER_TABLE = 4  # kills before a fresh table is made: the check reads every snapshot


class Tables:
    """One table of each shape, to be killed on again and again, and a fresh one after so many kills."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kills: Counter[Shape] = Counter()

    def directory(self, shape: Shape) -> Path:
        number = self._kills[shape] // PER_TABLE
        self._kills[shape] += 1
        return self._directory / f"{shape.value}-{number}"


@contextmanager
def reported(what: str) -> Iterator[None]:
    """Says which kill it was."""
    try:
        yield
    except (AssertionError, TidybergError) as problem:
        raise AssertionError(f"{what}: {problem}") from problem


def check_after_kill(warehouse: Warehouse, expected: list[str], commit_every: int | None = None) -> None:
    """Readable at once; after one more run tidy, with nothing lost, left over or deleted that is referenced."""
    table = warehouse.catalog.load_table("db.events")
    assert rows_of(warehouse, table) == expected, "the table must read right before anything is recovered"
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
    with make_control(warehouse, InlineEngine()) as control:
        control.compact(REF, replace(AT_ONCE, commit_every=commit_every), verify=VerifyMode.FULL)
        jobs = control.history(REF, limit=100)
    assert rows_of(warehouse, table) == expected
    on_disk, referenced = warehouse.files_on_disk(table), warehouse.referenced_files(table)
    assert not on_disk - referenced, "no leftovers after the next run"
    assert not referenced - on_disk, "nothing referenced is ever deleted"
    assert all(job.status.is_final and not job.unresolved for job in jobs)
    committed = chunks(table)
    assert len(committed) == len(set(committed)), "each chunk of a job is committed once"
    live = [file.path for file in warehouse.live_files(table)]
    assert len(live) == len(set(live)) == len(REGIONS), "each group is committed once, and its deletes are gone"


@pytest.mark.slow
def test_kill_at_random_moments_on_the_inline_engine(tmp_path: Path) -> None:
    rng, tables = random.Random(SEED), Tables(tmp_path)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.builders.victim", "tidyberg.control.control", "pyiceberg.io.pyarrow"])
    durations = dict.fromkeys(Shape, 0.5)
    for number in range(INLINE_KILLS):
        shape, commit_every = rng.choice(list(Shape)), rng.choice([None, 1, 2, 3])
        join_delete_size = rng.choice([1, AT_ONCE.join_delete_size])
        with Warehouse(tables.directory(shape)) as warehouse:
            expected = untidy(warehouse, shape, rng)
            arguments = (str(warehouse.directory), "inline", commit_every, join_delete_size)
            victim = context.Process(target=compact, args=arguments)
            started = time.monotonic()
            victim.start()
            victim.join(rng.uniform(0.0, durations[shape]))
            if victim.is_alive():
                victim.kill()  # bears that it ended at this very moment
                durations[shape] *= 1.05  # it was not done yet: look a little later next time
            else:
                durations[shape] = time.monotonic() - started
            victim.join()
            with reported(f"kill {number} on {shape.value}, a commit every {commit_every} groups, {join_delete_size=}"):
                check_after_kill(warehouse, expected, commit_every)


@pytest.mark.slow
@pytest.mark.spark
def test_kill_at_random_moments_on_spark(tmp_path: Path) -> None:
    rng, tables = random.Random(SEED), Tables(tmp_path)
    first = rng.randrange(len(Shape))
    for number in range(SPARK_KILLS):
        shape, commit_every = list(Shape)[(first + number) % len(Shape)], rng.choice([1, 2])
        with Warehouse(tables.directory(shape)) as warehouse:
            expected = untidy(warehouse, shape, rng)
            arguments = [str(warehouse.directory), "spark", str(commit_every)]
            command = [sys.executable, "-m", "tests.builders.victim", *arguments]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as victim:
                assert victim.stdout is not None
                stage = rng.choice(["execute", "execute", "verify", "commit"])
                for line in victim.stdout:
                    if line.strip() == stage:
                        break
                time.sleep(rng.uniform(0.0, 6.0 if stage == "execute" else 1.0))
                victim.kill()
            with reported(f"kill {number} on {shape.value} at {stage}, a commit every {commit_every} groups"):
                check_after_kill(warehouse, expected, commit_every)
