"""Sends a commit until its outcome is known. Retries conflicts, and asks the table about unknown outcomes.

A commit has succeeded if its snapshot or one of its outputs is in the table. An error proves nothing [I7]. A conflict
may be the answer to a commit of ours that a client library sent twice, so the table is checked first.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.table import Table

from tidyberg.catalog.metadata_file import send_commit, swaps_in_process
from tidyberg.commit.conflicts import refusal_to_commit, validate_groups
from tidyberg.commit.ownership import metadata_file_id
from tidyberg.commit.snapshot import Staged, Stager, last_sequence_number, next_row_id, snapshot_of_job
from tidyberg.errors import (
    AccessDenied,
    CatalogUnreachable,
    CommitStateUnknown,
    Conflict,
    GroupsConflict,
    StorageError,
    TableReplaced,
    Terminal,
    TidybergError,
)
from tidyberg.model.inventory import Inventory
from tidyberg.model.job import SentCommit
from tidyberg.model.plan import FileGroup, Plan
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.task import TaskResult
from tidyberg.model.words import plural
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.record.clock import wall_clock_ms

STORAGE_RETRIES = 3  # of a commit


class Journal(Protocol):
    """Records what a commit is about to do, so that recovery knows which files may exist."""

    def about_to_write(self, paths: Sequence[str]) -> None: ...

    def about_to_commit(self, sent: SentCommit) -> None:
        """Raises if the job no longer holds the table."""
        ...

    def check_ownership(self) -> None:
        """Raises if the job no longer holds the table. Records nothing."""
        ...


@dataclass(frozen=True)
class FinishedGroup:
    group: FileGroup
    result: TaskResult


@dataclass(frozen=True)
class Committed:
    snapshot_id: int
    groups: tuple[int, ...]
    conflicts: Mapping[int, str]
    attempts: int
    sequence_number: int | None = None  # unique to this commit; None: format version 1, or unknown
    removed_deletes: int | None = None  # delete files; None: unknown


@dataclass
class Publisher:
    catalog: Catalog
    plan: Plan
    job_id: str
    snapshot_id: int
    journal: Journal
    cache: ManifestCache
    name_mapping: str | None = None  # the table's when the groups were read
    chunk: int = 0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    notice: Callable[[str], None] = lambda _: None
    now_ms: Callable[[], int] = wall_clock_ms
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    _attempts: dict[str, tuple[int, ...]] = field(default_factory=dict)  # manifest list -> groups it commits
    _conflicts: dict[int, str] = field(default_factory=dict)
    _unknown_parent: int | None = None  # an attempt without an answer can succeed only while the branch is here
    _storage_failures: int = 0
    _unseen: bool = False  # whether an attempt that a server may have accepted was sent since the table was last read

    def publish(self, finished: Sequence[FinishedGroup]) -> Committed:
        try:
            return self._publish(finished)
        except CommitStateUnknown:
            raise
        except TidybergError as error:
            if self._unseen or self._may_still_land():
                raise self._unknown(error) from error
            raise

    def _publish(self, finished: Sequence[FinishedGroup]) -> Committed:
        stager = Stager(
            job_id=self.job_id,
            chunk=self.chunk,
            plan_hash=self.plan.hash,
            full_target=self.plan.full_target,
            snapshot_id=self.snapshot_id,
            sequence_number=self.plan.sequence_number,
            outputs={done.group.group_id: done.result.outputs for done in finished},
            deletes=self.plan.deletes,
            about_to_write=self.journal.about_to_write,
            now_ms=self.now_ms,
        )
        deadline = time.monotonic() + self.retry.total_timeout_ms / 1000
        failure: BaseException | None = None
        for attempt in range(self.retry.retries + 2):  # the last one only checks the previous one
            if attempt:
                self.sleep(self.retry.wait_seconds(attempt - 1, self.rng))
            try:
                table = self._load()
                parent = self._observe(table)
            except StorageError as error:
                self._bear(error)
                failure = failure or error
                continue
            except TidybergError:
                raise
            except Exception as error:  # noqa: BLE001  # clients have many; a catalog that is away may come back
                failure = failure or error
                self.notice(f"the catalog did not show {self.plan.table} ({brief(error)}); asking again")
                if time.monotonic() > deadline:
                    break
                continue
            self._unseen = False
            if parent.pinned.snapshot_id != self._unknown_parent:
                self._unknown_parent = None  # the branch has moved, so that attempt can no longer succeed
            if landed := self._landed(table, parent, finished, attempt):
                return landed
            if attempt > self.retry.retries or (failure is not None and time.monotonic() > deadline):
                break
            try:
                staged = self._stage(stager, table, parent, finished, attempt)
            except StorageError as error:
                self._bear(error)
                failure = failure or error
                continue
            try:
                number = self._send(table, staged, parent.pinned.snapshot_id, finished, attempt)
            except TidybergError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, only the table knows whether the commit landed
                failure = error
                end_open_transaction(self.catalog)
                self._unseen = not swaps_in_process(self.catalog)
                if self._is_unknown(error):
                    self._unknown_parent = parent.pinned.snapshot_id
                self.notice(f"commit attempt {attempt + 1} did not go through ({brief(error)}); asking the table")
                continue
            conflicts, removed = dict(self._conflicts), staged.removed_deletes
            return Committed(self.snapshot_id, staged.groups, conflicts, attempt + 1, number, removed)
        raise self._gave_up(failure, finished)

    def _bear(self, error: StorageError) -> None:
        """Retries after an error of storage, because the work of a whole job depends on a few small files."""
        self._storage_failures += 1
        if self._storage_failures > STORAGE_RETRIES:
            raise error
        self.notice(f"storage failed while the commit was prepared ({brief(error)}); trying again")

    def _load(self) -> Table:
        ending = "" if self._unseen else "; nothing was committed"
        try:
            table = self.catalog.load_table(self.plan.table.identifier)
        except NoSuchTableError as error:
            raise TableReplaced(f"{self.plan.table} was dropped or renamed while the job ran{ending}.") from error
        if str(table.metadata.table_uuid) != self.plan.table_uuid:
            raise TableReplaced(
                f"{self.plan.table} was dropped and created again while the job ran{ending}.", hint="Plan again."
            )
        return table

    def _observe(self, table: Table) -> Inventory:
        pinned = pin(table, self.plan.table, self.plan.branch)
        return take_inventory(table, pinned, self.cache)

    def _landed(
        self, table: Table, parent: Inventory, finished: Sequence[FinishedGroup], attempt: int
    ) -> Committed | None:
        """I7: whether an earlier attempt, of this process or another, has already committed this chunk."""
        if snapshot := snapshot_of_job(table.metadata, self.job_id, self.chunk):
            groups = self._attempts.get(snapshot.manifest_list, self._live_groups(parent, finished))
            number = (snapshot.sequence_number or None) if table.metadata.format_version > 1 else None
            removed = int((snapshot.summary["removed-delete-files"] if snapshot.summary else None) or 0)
            return Committed(snapshot.snapshot_id, groups, dict(self._conflicts), attempt, number, removed)
        # Our snapshot may have expired while its files are still live.
        if self._attempts and (groups := self._live_groups(parent, finished)):
            self.journal.check_ownership()  # otherwise a job that took over may have committed them
            return Committed(self.snapshot_id, groups, dict(self._conflicts), attempt)
        return None

    def _live_groups(self, parent: Inventory, finished: Sequence[FinishedGroup]) -> tuple[int, ...]:
        outputs = {file.path: done.group.group_id for done in finished for file in done.result.outputs}
        wanted = pa.array(list(outputs), pa.string())
        live = [
            path
            for paths in (parent.data_files["path"], parent.delete_files["path"])
            for path in paths.filter(pc.is_in(paths, value_set=wanted)).to_pylist()
        ]
        return tuple(sorted({outputs[path] for path in live}))

    def _stage(
        self, stager: Stager, table: Table, parent: Inventory, finished: Sequence[FinishedGroup], attempt: int
    ) -> Staged:
        text = refusal_to_commit(self.plan, parent.pinned)
        if text is None and parent.pinned.name_mapping != self.name_mapping:
            text = "the name mapping changed, by which files without field ids are read"
        if text is not None:
            raise GroupsConflict(
                f"Nothing was committed to {self.plan.table}: {text}.",
                hint="Plan again.",
                reasons={done.group.group_id: text for done in finished},
            )
        groups = [done.group for done in finished if done.group.group_id not in self._conflicts]
        outputs = {done.group.group_id: done.result.outputs for done in finished}
        validation = validate_groups(groups, parent, self.plan, outputs)
        for group_id, reason in validation.conflicts.items():
            self._conflicts[group_id] = reason
            self.notice(f"group {group_id} is left out: {reason}")
        if not validation.replaceable:
            first = next(iter(self._conflicts.values()))
            raise GroupsConflict(
                f"Other writers changed every group of {self.plan.table} meanwhile: {first}.",
                hint="Plan again.",
                reasons=dict(self._conflicts),
            )
        staged = stager.stage(self.catalog, table, parent, validation.replaceable, attempt)
        self._attempts[staged.manifest_list] = staged.groups
        return staged

    def _send(
        self,
        table: Table,
        staged: Staged,
        parent_id: int | None,
        finished: Sequence[FinishedGroup],
        attempt: int,
    ) -> int | None:
        """Returns the sequence number of the commit."""
        assert parent_id is not None
        groups = tuple(done.group.group_id for done in finished)
        sequence_number = table.metadata.next_sequence_number() if table.metadata.format_version > 1 else None
        self.journal.about_to_commit(SentCommit(self.chunk, parent_id, self.snapshot_id, groups, sequence_number))
        try:
            send_commit(
                self.catalog,
                table,
                staged.requirements,
                staged.updates,
                file_id=metadata_file_id(f"{self.job_id}/{self.chunk}/{attempt}"),
                about_to_write=self.journal.about_to_write,
            )
        except (ForbiddenError, UnauthorizedError) as error:
            raise AccessDenied(f"The catalog refused the commit: {brief(error)}.") from error
        except BadRequestError as error:
            if self._moved_since(table):
                raise CommitFailedException(brief(error)) from error
            raise Terminal(f"The catalog rejected the commit: {brief(error)}.") from error
        return sequence_number

    def _moved_since(self, table: Table) -> bool:
        """Whether another branch took our sequence number, or an upgrade changed what a snapshot must contain.

        No requirement covers this, and servers answer that the request is bad.
        """
        try:
            return numbering(self._load()) != numbering(table)
        except TidybergError:
            raise
        except Exception:  # noqa: BLE001  # without an answer nobody can tell: the next attempt asks again
            return True

    def _is_unknown(self, error: BaseException) -> bool:
        """Whether the server may still be working on the attempt."""
        return not isinstance(error, CommitFailedException) and not swaps_in_process(self.catalog)

    def _may_still_land(self) -> bool:
        if self._unknown_parent is None:
            return False
        try:
            ref = self._load().metadata.refs.get(self.plan.branch)
        except Exception:  # noqa: BLE001  # without an answer nobody can tell; and a table may be gone by a rename
            return True
        return ref is not None and ref.snapshot_id == self._unknown_parent

    def _gave_up(self, failure: BaseException | None, finished: Sequence[FinishedGroup]) -> TidybergError:
        tries = self.retry.retries + 1
        if failure is not None and (self._unseen or self._unknown_parent is not None):
            return self._unknown(failure)
        if isinstance(failure, StorageError):
            return failure
        if isinstance(failure, CommitFailedException):
            return Conflict(
                f"{self.plan.table} was too busy: {plural(tries, 'attempt')} to commit "
                f"{plural(len(finished), 'group')} lost ({brief(failure)}).",
                hint="Try again when fewer writers commit, or raise commit.retries.",
            )
        if not self._attempts:
            return CatalogUnreachable(
                f"The catalog did not show {self.plan.table} when the commit was due ({brief(failure)}); "
                "nothing was committed.",
                hint="Try again when it answers.",
            )
        often = "once" if tries == 1 else f"{tries} times"
        return StorageError(
            f"The commit to {self.plan.table} failed {often} ({brief(failure)}); the table is unchanged.",
            hint="See that the catalog's database and the table's location are writable and have room.",
        )

    def _unknown(self, failure: BaseException) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"The catalog did not say whether the commit to {self.plan.table} landed ({brief(failure)}).",
            hint="The new files were kept. Run `tidyberg recover` once the catalog answers again.",
        )


def numbering(table: Table) -> tuple[int, int, int | None]:
    return table.metadata.format_version, last_sequence_number(table.metadata), next_row_id(table)


def end_open_transaction(catalog: Catalog) -> None:
    """Makes sure that the next load of the table sees what other processes see.

    SQLAlchemy returns a connection whose COMMIT failed to its pool with the transaction still open. That connection
    would show our own change, which no other process sees. SQLite refuses a COMMIT while another process reads.
    """
    if isinstance(catalog, SqlCatalog) and catalog.engine.url.database not in (None, "", ":memory:"):
        catalog.engine.dispose()


def brief(error: BaseException | None) -> str:
    text = " ".join(str(error).split()) if error else ""
    return (text[:200] + "…") if len(text) > 200 else text or type(error).__name__
