"""Finds false metadata in outputs and in the manifests that will list them.

Copied row groups keep the metadata of their writer. If it was false in an input, the output is still accepted, provided
that it is false in the same way: the same problem in the same column, and no more often than in the inputs. So one
damaged page excuses that page, but no other damage. Metadata that a copy writes itself, such as offsets and ordinals,
must be right, and so must manifests.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from tidyberg.execute.kernel.check.metrics import check_metrics
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskInput, WrittenFile
from tidyberg.parquet.check.file import FileReport, check_file
from tidyberg.parquet.check.problems import FileProblem
from tidyberg.storage.file_io import Storage

# Rules about metadata that the kernel writes itself, whatever the inputs have.
OWN_RULES = frozenset(
    ("footer", "schema", "chunk", "ordinals", "overlap", "row-group-order", "row-group-offset", "index-place",
     "column-orders")
)  # fmt: skip

ReportOf = Callable[[str, int], FileReport]  # location, size
# Rule, statement and column. The column's id is used if it has one, because names may change.
_Key = tuple[str, str, int | str | None]
# A copy may change offsets and bounds in a statement, but not the statement itself.
_VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[-+]?\d[\d.]*(?:e[-+]?\d+)?")


def output_problems(
    outputs: Sequence[WrittenFile], sources: Sequence[TaskInput], report_of: ReportOf
) -> tuple[FileProblem, ...]:
    """Returns the problems of the outputs. `sources` are the files whose row groups or pages they may contain."""
    found: list[FileProblem] = []
    inheritable: dict[_Key, list[FileProblem]] = {}
    for output in outputs:
        report = report_of(output.path, output.size)
        found += check_metrics(report, output)
        for problem in report.problems:
            if problem.rule in OWN_RULES or not sources:
                found.append(problem)
            else:
                inheritable.setdefault(_key(problem, report), []).append(problem)
    for source in sources:
        if not inheritable:
            break
        report = report_of(source.path, source.size)
        for key, times in Counter(_key(problem, report) for problem in report.problems).items():
            if key in inheritable:
                inheritable[key] = inheritable[key][times:]
                if not inheritable[key]:
                    del inheritable[key]
    return (*found, *(problem for problems in inheritable.values() for problem in problems))


def _key(problem: FileProblem, report: FileReport) -> _Key:
    statement = _VALUES.sub("…", problem.what)
    return problem.rule, statement, report.field_ids.get(problem.column or "", problem.column)


def report_stored_file(storage: Storage, should_stop: Callable[[], bool], path: str, size: int) -> FileReport:
    """Checks a file on any storage."""
    place = storage.place(path)

    def stop() -> None:
        if should_stop():
            raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")

    if place.object is not None:

        def fetch(offset: int, length: int) -> object:
            stop()
            return storage.read_range(place, offset, length)

        return check_file(fetch, size, path)
    with storage.open_input(place, size) as source, storage.guard(path):

        def read(offset: int, length: int) -> object:
            stop()
            return source.read_at(length, offset)

        return check_file(read, size, path)
