"""Ways of rewriting a table's files, and their results: bytes copied, spliced, joined and encoded."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.builders.engines import Watched
from tests.builders.java_tables import compact
from tests.builders.splice_tasks import small_files_count
from tidyberg.execute.kernel.read import small_files as tiny
from tidyberg.execute.kernel.splice import eligibility as judge
from tidyberg.model.options import RewriteMode, VerifyMode
from tidyberg.model.task import TaskResult
from tidyberg.testing import Warehouse


@contextmanager
def _moves_all_pages() -> Iterator[None]:
    """Makes the kernel splice small files too, and columns that would get a dictionary."""
    with small_files_count(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "_dictionaries_from_first_rows", lambda *_: {})
        patch.setattr(judge, "_MAX_DELETED_SHARE", 1.0)
        yield


@contextmanager
def _joins_nothing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "_MAX_REFUSED", 0)
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
    engine = Watched()
    joined: list[tuple[int, int]] = []
    read = tiny.SmallFileReader.read

    def watched(files: tiny.SmallFileReader, bunch: Any, shape: Any) -> Any:
        found = read(files, bunch, shape)
        if found is not None:
            joined.append((len(bunch), sum(file.input.size for file in bunch)))
        return found

    with mode.setting(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny.SmallFileReader, "read", watched)
        compact(warehouse, name, engine=engine, mode=mode.asked, verify=mode.verify, **options)
    return Rewritten(tuple(engine.results), sum(count for count, _ in joined), sum(size for _, size in joined))
