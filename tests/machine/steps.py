"""Stops a compaction between any two of its steps: to let another writer in, or to end it there for good."""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from tests.builders.control import make_control
from tidyberg.control.control import Control
from tidyberg.execute.engine import Engine
from tidyberg.model.job import Job, Owner, Stage
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.record.store import Finished
from tidyberg.testing import Warehouse

LATER_MS = 3_600_000  # long enough after a crash that no catalog can still be working on the dead job's commit


class Crash(BaseException):
    """The process is gone: nothing that is written to handle failures may handle this."""


class Steps(SqliteStore):
    """A job store that counts what is recorded in it: before each step a job records what it is about to do.

    `at` are things to do before a step, by its number; from the step `crash_at` on nothing is recorded any more, so
    that the job ends where it stands and tidies up nothing, as if its process had been killed.
    """

    def __init__(
        self, path: Path, at: Mapping[int, Callable[[], object]] | None = None, crash_at: int | None = None
    ) -> None:
        super().__init__(path, _is_dead)  # of one table's jobs here, only the newest can be alive
        self._at = dict(at or {})
        self._crash_at = crash_at
        self.steps = 0
        self.crashed = False

    def save(self, job: Job, *, holder: str | None = None) -> bool:
        self._step()
        return super().save(job, holder=holder)

    def note_paths(self, job_id: str, paths: Sequence[str]) -> None:
        self._step()
        super().note_paths(job_id, paths)

    def renew(self, table_uuid: str, job_id: str, *, now_ms: int, ttl_ms: int) -> bool:
        self._refuse_the_dead()
        return super().renew(table_uuid, job_id, now_ms=now_ms, ttl_ms=ttl_ms)

    def release(self, table_uuid: str, job_id: str) -> None:
        self._refuse_the_dead()
        super().release(table_uuid, job_id)

    def forget_paths(self, job_id: str) -> None:
        self._refuse_the_dead()
        super().forget_paths(job_id)

    def save_plan(self, job_id: str, document: str) -> None:
        self._step()
        super().save_plan(job_id, document)

    def save_finished(self, job_id: str, finished: Finished, *, table_uuid: str | None = None) -> None:
        self._step()
        super().save_finished(job_id, finished, table_uuid=table_uuid)

    def withdraw(self, table_uuid: str, holder: str, job_id: str, groups: Collection[int] | None = None) -> bool:
        self._refuse_the_dead()
        return super().withdraw(table_uuid, holder, job_id, groups)

    def forget(self, job_id: str) -> None:
        self._step()
        super().forget(job_id)

    def _step(self) -> None:
        self._refuse_the_dead()
        self.steps += 1
        if self.steps in self._at:
            self._at.pop(self.steps)()
        if self.steps == self._crash_at:
            self.crashed = True
            raise Crash

    def _refuse_the_dead(self) -> None:
        if self.crashed:
            raise Crash


class Moment(StrEnum):
    """Between two stages of a job, each named by what was just done."""

    PLANNED = "planned"
    REWRITTEN = "rewritten"
    VERIFIED = "verified"
    STAGED = "staged"  # the manifests are written; the commit is sent next

    def has_come(self, job: Job) -> bool:
        if self is Moment.STAGED:
            return job.sent is not None
        return job.stage is {Moment.PLANNED: Stage.EXECUTE, Moment.REWRITTEN: Stage.VERIFY}.get(self, Stage.COMMIT)


class AtMoment(SqliteStore):
    """A job store that lets something happen once, at a moment of the job."""

    def __init__(self, path: Path, moment: Moment, act: Callable[[], object]) -> None:
        super().__init__(path, is_alive)
        self._moment = moment
        self._act: Callable[[], object] | None = act

    @property
    def acted(self) -> bool:
        return self._act is None

    def save(self, job: Job, *, holder: str | None = None) -> bool:
        if self._act is not None and self._moment.has_come(job):
            act, self._act = self._act, None
            act()
        return super().save(job, holder=holder)


def survivor(warehouse: Warehouse, jobs: Path, engine: Engine | None = None) -> Control:
    """A control room that finds the jobs of a process which no longer runs."""
    store = SqliteStore(jobs, _is_dead)
    control = make_control(warehouse, engine, store=store)
    clock = control.now_ms
    control.now_ms = lambda: clock() + LATER_MS
    return control


def recover(warehouse: Warehouse, jobs: Path, ref: TableRef) -> list[str]:
    with survivor(warehouse, jobs) as control:
        return control.recover(ref)


def _is_dead(_: Owner) -> bool | None:
    return False
