"""`make mutants`: breaks each rule, one at a time, in a copy of the code, and shows that a test fails for each.

First all the tests run on an untouched copy, so that a failure means something. `--no-baseline` skips that where the
tests have just passed.
"""

import argparse
import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.mutant import SOURCE, Mutant
from tests.mutants.rules import MUTANTS

TESTS_FAILED = 1  # pytest's exit code; others mean that it could not run them
ROOT = SOURCE.parents[1]


def main() -> int:
    options = parse_options()
    chosen = [mutant for mutant in MUTANTS if options.only.lower() in f"{mutant.rule} {mutant.file}".lower()]
    if not chosen:
        say(f"no mutant's rule or file contains {options.only!r}")
        return 2
    started = time.monotonic()
    compileall.compile_dir(SOURCE, quiet=2)  # copies are made with the bytecode, and only a mutated module is compiled
    if options.baseline and (output := failure_without_mutants(chosen)):
        say(f"the tests fail without any mutant:\n{output}")
        return 2
    survivors = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, (verdict, output) in zip(chosen, pool.map(judge, chosen), strict=True):
            say(f"{verdict:8} {mutant.file}: {mutant.rule}")
            if verdict != "killed":
                survivors += 1
                say(output)
    rate = 100 * (len(chosen) - survivors) / max(1, len(chosen))
    say(f"{len(chosen) - survivors} of {len(chosen)} mutants killed ({rate:.0f} %), {time.monotonic() - started:.0f} s")
    return 1 if survivors else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose rule or file contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-baseline", dest="baseline", action="store_false", help="the tests have just passed")
    return parser.parse_args()


def failure_without_mutants(chosen: Sequence[Mutant]) -> str:
    with untouched() as copy:
        status, output = run_tests(copy, sorted({test for mutant in chosen for test in mutant.tests}))
    return output if status != 0 else ""


def judge(mutant: Mutant) -> tuple[str, str]:
    with untouched() as copy:
        mutant.apply(copy)
        status, output = run_tests(copy, mutant.tests)
    verdicts = {0: "SURVIVED", TESTS_FAILED: "killed"}
    return verdicts.get(status, "BROKEN"), output


@contextmanager
def untouched() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory) / "tidyberg"
        shutil.copytree(SOURCE, copy)
        yield copy


def run_tests(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout[-3000:] + done.stderr[-1000:]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
