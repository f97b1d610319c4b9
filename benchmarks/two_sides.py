"""Helps the benchmarks that run tidyberg and Java on copies of the same tables, each side in its own process."""

import argparse
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

SIDES = ("tidyberg", "java")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=Path, help="where to build the tables once; a temporary directory by default")
    parser.add_argument("--only-build", action="store_true", help="build the tables, for a later run with --keep")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of Spark")
    parser.add_argument("--one", help=argparse.SUPPRESS)


@contextlib.contextmanager
def home_of(kept: Path | None) -> Iterator[Path]:
    """Yields the directory in which tables are built. It is removed afterwards, unless it is to be kept."""
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        home = (kept or Path(temporary)).absolute()
        home.mkdir(parents=True, exist_ok=True)
        yield home


@contextlib.contextmanager
def answering() -> Iterator[tuple[TextIO, Path]]:
    """For the process of a side. Yields a stream for its answers, and a directory for its own files.

    Spark also writes to standard output. So everything but answers goes to standard error.
    """
    with os.fdopen(os.dup(1), "w") as answers, tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        os.dup2(2, 1)
        yield answers, Path(scratch)


def put_back(pristine: Path, live: Path, copy: Callable[..., object] = shutil.copy2) -> None:
    """Replaces what a side left by a fresh copy. The default copies times too."""
    shutil.rmtree(live, ignore_errors=True)
    shutil.copytree(pristine, live, copy_function=copy)
    os.sync()  # no run should pay for the pending writes of another
