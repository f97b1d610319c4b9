"""Random files of every writer are copied, spliced or joined, and every judge finds the same rows.

The normal run has a modest number of files. With TEST_LONG there are 10,000 files for each way of rewriting
(`make test-long`). TEST_SEED draws the same files again.
"""

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, seed, settings
from hypothesis import strategies as st

from tests.builders.copy_tasks import copy
from tests.builders.splice_tasks import rewrite, small_files_count
from tests.builders.tasks import STORAGE, make_task
from tests.fuzzing.judges import by_duckdb, check, has_plain_bytes
from tests.fuzzing.schemas import Shape, shapes
from tests.fuzzing.writers import Choice, choices, codec_of, counting_nulls, one_page_choices, plain_choices
from tests.seed import SEED
from tidyberg.execute.kernel.read import small_files as tiny
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import TaskInput, TaskResult
from tidyberg.parquet.joined import join

# `check` looks at the outputs of every example; fastparquet uses what pandas will drop.
pytestmark = [pytest.mark.unwatched, pytest.mark.filterwarnings("ignore:::fastparquet")]

LONG = "TEST_LONG" in os.environ
FILES = 12 if LONG else 6  # at most, of an example
WANTED = int(os.environ.get("TEST_FUZZED_FILES", "10000" if LONG else "60"))  # for each mode

ALWAYS = settings(
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@dataclass(frozen=True)
class Case:
    shape: Shape
    choices: tuple[Choice, ...]  # one for each file
    rows: tuple[int, ...]
    values: int  # the seed of all values
    outputs: int


@st.composite
def cases(draw: st.DrawFn, *, alike: bool = False, plain: bool = False, lists: bool = True) -> Case:
    """Draws a case. `alike`: all files have one writer with the same options; `plain`: the first has plain pages."""
    shape = draw(shapes(lists=lists))
    count = draw(st.integers(2, FILES))
    # Three ways to write at most: files of one table are often alike.
    way = st.one_of(choices(shape), one_page_choices(shape), one_page_choices(shape)) if alike else choices(shape)
    ways = draw(st.lists(way, min_size=1, max_size=1 if alike else 3))
    ways = [draw(plain_choices(shape)), *ways] if plain else ways
    ways = ways if draw(st.integers(0, 9)) == 0 else list(map(counting_nulls, ways))
    chosen = [ways[0], *(draw(st.sampled_from(ways)) for _ in range(count - 1))]
    rows = tuple(draw(st.lists(st.sampled_from([0, 1, 5, 25, 60]), min_size=count, max_size=count)))
    return Case(shape, tuple(chosen), rows, draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 3)))


@contextmanager
def written(case: Case, totals: Counter[str]) -> Iterator[tuple[Path, list[TaskInput], pa.Table]]:
    """Writes the files of a case into a new directory. Returns them and all their rows."""
    directory = Path(tempfile.mkdtemp(prefix="tidyberg-fuzz-"))
    try:
        rng, first = random.Random(case.values), 0
        tables, inputs = [], []
        for number, (choice, rows) in enumerate(zip(case.choices, case.rows, strict=True)):
            table = case.shape.table(rng, first, rows)
            first += rows
            path = directory / f"in-{number}.parquet"
            found = as_written(choice, table, path)
            if found is None:
                totals[f"{choice.name} cannot write it"] += 1
                continue
            tables.append(found)
            inputs.append(TaskInput(str(path), path.stat().st_size, rows))
            totals[f"by {choice.name}"] += 1
        totals["files"] += len(inputs)
        assume(inputs)
        yield directory, inputs, pa.concat_tables(tables or [case.shape.schema.empty_table()])
    finally:
        shutil.rmtree(directory)


def as_written(choice: Choice, table: pa.Table, path: Path) -> pa.Table | None:
    """Returns the rows that Arrow reads, because fastparquet turns NaN into null. None if writing or reading fails."""
    try:
        choice.write(table, path)
        found = pq.read_table(path).cast(table.schema)
    except BaseException as error:  # Rust panics are no exceptions
        if isinstance(error, KeyboardInterrupt | SystemExit | AssertionError):
            raise
        return None
    return found if found.num_rows == table.num_rows else None


def filters(case: Case) -> list[tuple[str, pc.Expression]]:
    """Returns filters for SQL and Arrow: all rows, one row, and the rows with a null in another column."""
    one, last = sum(case.rows) // 2, case.shape.schema.names[-1]
    return [
        ("true", pc.scalar(True)),
        (f"id = {one}", pc.field("id") == one),
        (f"{last} IS NULL", pc.field(last).is_null()),
    ]


def fuzz(case_strategy: st.SearchStrategy[Case], run: Callable[[Case, Counter[str]], None], mode: str) -> Counter[str]:
    """Draws cases until enough files went through the mode. Files that fell back to another mode do not count."""
    totals: Counter[str] = Counter()
    rounds = 0
    while totals[mode] < WANTED:

        @seed(SEED + rounds)
        @settings(ALWAYS, max_examples=40 if LONG else 14)
        @given(case_strategy)
        def some(case: Case) -> None:
            assume(sum(case.rows))
            note(f"{case.shape.schema}\n{case.choices}\nrows {case.rows}, values {case.values}, {case.outputs} outputs")
            run(case, totals)

        some()
        rounds += 1
    return totals


def report(mode: str, totals: Counter[str], capsys: pytest.CaptureFixture[str]) -> None:
    for reader in ("by_duckdb", "by_datafusion"):
        # A judge that can answer little judges little. About 1 % is usual, but a few unlucky draws can make it 10 %.
        assert totals[f"queries that {reader} cannot answer"] < totals[f"queries {reader}"] / 2, totals
    with capsys.disabled():
        reported = ", ".join(f"{number} {name}" for name, number in sorted(totals.items()) if name != "files")
        sys.stdout.write(f"\nfuzzed, {mode}: {totals['files']} files (seed {SEED}): {reported}\n")


def copied(case: Case, totals: Counter[str]) -> None:
    with written(case, totals) as (directory, inputs, expected):
        result = copy(inputs, directory / "out", case.shape.schema, outputs=case.outputs)
        totals["copied" if result.mode == "copy" else f"encoded instead ({_word(result.mode_reason)})"] += len(inputs)
        check(result, inputs, expected, filters(case), totals)


def _word(reason: str) -> str:
    """Removes the names of files and columns from a reason."""
    return " ".join(word for word in reason.split() if word.isalpha())[:40]


def spliced(case: Case, totals: Counter[str]) -> None:
    with written(case, totals) as (directory, inputs, expected), small_files_count():
        write = {"compression": codec_of(case.choices[0])}
        result = rewrite(inputs, directory / "out", case.shape.schema, write=write, outputs=case.outputs)
        totals["in tasks that spliced" if result.bytes_spliced else "encoded"] += len(inputs)
        check(result, inputs, expected, filters(case), totals)


def joined(case: Case, totals: Counter[str]) -> None:
    def counted(contents: Sequence[Any], *args: Any) -> Any:
        found = join(contents, *args)
        totals["joined" if found is not None else "read one by one"] += len(contents)
        return found

    with written(case, totals) as (directory, inputs, expected), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "join", counted)
        result = run_task(make_task(inputs, case.shape.schema, directory / "out"), 0, STORAGE)
        assert isinstance(result, TaskResult)
        check(result, inputs, expected, filters(case), totals)


@pytest.mark.timeout(7200 if LONG else 600)
def test_random_copies_keep_all_rows(capsys: pytest.CaptureFixture[str]) -> None:
    report("copy", fuzz(cases(), copied, "copied"), capsys)


@pytest.mark.timeout(7200 if LONG else 600)
def test_random_splices_keep_all_rows(capsys: pytest.CaptureFixture[str]) -> None:
    report("splice", fuzz(cases(plain=True), spliced, "in tasks that spliced"), capsys)


@pytest.mark.timeout(7200 if LONG else 600)
def test_random_joined_files_keep_all_rows(capsys: pytest.CaptureFixture[str]) -> None:
    report("join", fuzz(cases(alike=True, lists=False), joined, "joined"), capsys)


@pytest.mark.parametrize(("kind", "value"), [(pa.string(), "some"), (pa.binary(3), b"abc")])
def test_duckdb_still_misreads_plain_bytes(kind: pa.DataType, value: Any, tmp_path: Path) -> None:
    """The file was never rewritten. Once DuckDB reads it correctly, `has_plain_bytes` must be removed."""
    path = str(tmp_path / "plain.parquet")
    rows = pa.table({"value": pa.array([value, None, value, None, value], kind)})
    pq.write_table(rows, path, use_dictionary=False, max_rows_per_page=1, write_batch_size=1)
    assert has_plain_bytes(path, "value")
    assert len(by_duckdb([path], "value IS NULL")) != 2
