"""Checks every output that the kernel writes during the tests of this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tidyberg.execute.kernel import run
from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.check.outputs import output_problems
from tidyberg.execute.kernel.rewrite import rewrite
from tidyberg.model.task import TaskResult
from tidyberg.parquet.check.file import FileReport, check_path

_LARGEST = 8 << 20  # bytes: a few benchmarks' tests write more, and every rule is met in small files too


@contextmanager
def watched_outputs() -> Iterator[list[str]]:
    """Returns the problems as text. It does not use the task's storage, which some tests make fail on purpose."""
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "rewrite", _checked(rewrite, found))
        yield found


def _checked(write: Callable[[RewriteAttempt], TaskResult], found: list[str]) -> Callable[..., TaskResult]:
    def checked(attempt: RewriteAttempt) -> TaskResult:
        result = write(attempt)
        local = [
            output
            for output in result.outputs
            if attempt.storage.place(output.path).is_local and output.size < _LARGEST
            if not output.path.endswith(".puffin")
        ]
        moved = result.mode == "copy" or result.bytes_spliced
        problems = output_problems(local, attempt.task.inputs if moved else (), _report)
        found.extend(map(str, problems))
        return result

    return checked


def _report(path: str, size: int) -> FileReport:
    del size  # the file's own counts, and metrics are compared with it
    return check_path(path.removeprefix("file://").removeprefix("file:"))
