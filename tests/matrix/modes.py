"""Ways of rewriting a table's files, and their results: bytes copied, spliced, joined and encoded."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.engines import Spoiling
from tests.oracle.tables import compact
from tests.splicing.tables import small_files_count
from tidyberg.execute.kernel.read import tiny
from tidyberg.execute.kernel.splice import judge
from tidyberg.model.options import RewriteMode, VerifyMode
from tidyberg.model.task import TaskResult
from tidyberg.testing import Warehouse


@contextmanager
def _moves_all_pages() -> Iterator[None]:
    """Makes the kernel splice small files too, and columns that would get a dictionary."""
    with small_files_count(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "_worth_a_dictionary", lambda *_: {})
        patch.setattr(judge, "_MOST_LOSING", 1.0)
        yield


@contextmanager
def _joins_nothing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "_MOST_REFUSED", 0)
        yield


@dataclass(frozen=True)
class Mode:
    name: str
    asked: RewriteMode
    verify: VerifyMode = VerifyMode.FULL
    setting: Callable[[], AbstractContextManager[None]] = field(default=nullcontext, repr=False)

    def __str__(self) -> str:
        return self.name


# Full verification decodes all rows on the way, so that nothing is spliced.
COPY = Mode("copy", RewriteMode.COPY)
SPLICE = Mode("splice", RewriteMode.AUTO, VerifyMode.COUNTS, _moves_all_pages)
JOIN = Mode("join", RewriteMode.ENCODE)
ENCODE = Mode("encode", RewriteMode.ENCODE, setting=_joins_nothing)
AUTO = Mode("auto", RewriteMode.AUTO, VerifyMode.COUNTS)
MODES = (COPY, SPLICE, JOIN, ENCODE, AUTO)


@dataclass(frozen=True)
class Rewritten:
    """What the tasks of a job have done."""

    results: tuple[TaskResult, ...]
    files_joined: int
    bytes_joined: int  # of inputs

    @property
    def bytes_copied(self) -> int:
        return sum(result.bytes_written for result in self.results if result.mode == "copy")

    @property
    def bytes_spliced(self) -> int:
        return sum(result.bytes_spliced for result in self.results)

    @property
    def bytes_encoded(self) -> int:
        written = sum(result.bytes_written for result in self.results if result.mode == "encode")
        return written - self.bytes_spliced

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why groups were encoded instead of copied."""
        return tuple(result.mode_reason for result in self.results if result.mode_reason)


def rewrite(warehouse: Warehouse, name: str, mode: Mode, **options: Any) -> Rewritten:
    results: list[TaskResult] = []
    joined: list[tuple[int, int]] = []
    read = tiny.TinyFiles.read

    def keep(result: TaskResult) -> TaskResult:
        results.append(result)
        return result

    def watched(files: tiny.TinyFiles, bunch: Any, shape: Any) -> Any:
        found = read(files, bunch, shape)
        if found is not None:
            joined.append((len(bunch), sum(file.input.size for file in bunch)))
        return found

    with mode.setting(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny.TinyFiles, "read", watched)
        compact(warehouse, name, engine=Spoiling(keep), mode=mode.asked, verify=mode.verify, **options)
    return Rewritten(tuple(results), sum(count for count, _ in joined), sum(size for _, size in joined))
