"""Sends a commit until its outcome is known. Retries conflicts, and asks the table about unknown outcomes.

Commits of groups, manifests, expiries and properties use this loop. An error proves nothing [I7]. A conflict may be the
answer to a commit of ours that a client library sent twice, so the table is checked first.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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

from tidyberg.catalog.metadata_file import swaps_in_process
from tidyberg.errors import (
    AccessDenied,
    CatalogUnreachable,
    CommitStateUnknown,
    Conflict,
    StorageError,
    TableReplaced,
    Terminal,
    TidybergError,
)
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural

STORAGE_RETRIES = 3  # of a commit

State = TypeVar("State")  # of the table, as far as a commit is based on it
Attempt = TypeVar("Attempt")  # what is sent
Result = TypeVar("Result")


class CommitKind(ABC, Generic[State, Attempt, Result]):
    """One kind of commit. `CommitLoop` calls these methods in this order for each attempt."""

    @property
    @abstractmethod
    def purpose(self) -> str:
        """Completes "3 attempts to … lost"."""

    @property
    @abstractmethod
    def hint_if_unknown(self) -> str:
        """Tells the user what to do if nobody can say whether the commit landed."""

    @abstractmethod
    def observe(self, table: Table) -> State:
        """Reads the state of the table that the next attempt is based on."""

    @abstractmethod
    def landed(self, state: State, attempt: int) -> Result | None:
        """Returns the result of an earlier attempt if the table shows that it landed [I7]."""

    @abstractmethod
    def stage(self, state: State, attempt: int) -> Attempt | None:
        """Writes what the attempt needs. Returns None if there is nothing to commit."""

    @abstractmethod
    def send(self, state: State, staged: Attempt, attempt: int) -> Result | None:
        """Sends the attempt. Returns None if the result must be read from the table."""

    def parent(self, _table: Table) -> object:
        """Returns what must stay the same for an unanswered attempt to land later. None: it can land at any time."""
        return None

    def assumptions(self, _table: Table) -> object:
        """Returns what an attempt assumes of the table although no requirement states it."""
        return None


@dataclass
class CommitLoop:
    """Loads the table, stages and sends an attempt, and repeats that until the table shows how the attempts ended."""

    catalog: Catalog
    table: TableRef
    table_uuid: str
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    notice: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    sent: int = 0  # attempts
    _in_doubt: bool = False  # a server may still carry out an attempt that it did not answer
    _doubtful_parent: object = None  # the `parent` of that attempt
    _unseen: bool = False  # an attempt that a server may have accepted was sent since the table was last read
    _storage_failures: int = 0

    def run(self, commit: CommitKind[State, Attempt, Result]) -> Result | None:
        """Returns None if there was nothing to commit."""
        try:
            return self._run(commit)
        except CommitStateUnknown:
            raise
        except TidybergError as error:
            if self._unseen or self._may_still_land(commit):
                raise self._unknown(commit, error) from error
            raise

    def _run(self, commit: CommitKind[State, Attempt, Result]) -> Result | None:
        deadline = time.monotonic() + self.retry.total_timeout_ms / 1000
        failure: BaseException | None = None
        for attempt in range(self.retry.retries + 2):  # the last one only checks the previous one
            if attempt:
                self.sleep(self.retry.wait_seconds(attempt - 1, self.rng))
            try:
                table = self._load()
                state = commit.observe(table)
            except StorageError as error:
                self._bear(error)
                failure = failure or error
                continue
            except TidybergError:
                raise
            except Exception as error:  # noqa: BLE001  # clients have many; a catalog that is away may come back
                failure = failure or error
                self.notice(f"the catalog did not show {self.table} ({brief(error)}); asking again")
                if time.monotonic() > deadline:
                    break
                continue
            self._unseen = False
            if commit.parent(table) != self._doubtful_parent:
                self._in_doubt = False  # the table has moved on, so that attempt can no longer land
            if (landed := commit.landed(state, attempt)) is not None:
                return landed
            if attempt > self.retry.retries or (failure is not None and time.monotonic() > deadline):
                break
            try:
                staged = commit.stage(state, attempt)
            except StorageError as error:
                self._bear(error)
                failure = failure or error
                continue
            if staged is None:
                return None
            try:
                self.sent += 1
                result = self._send(commit, table, state, staged, attempt)
            except TidybergError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, only the table knows whether the commit landed
                failure = error
                end_open_transaction(self.catalog)
                self._unseen = not swaps_in_process(self.catalog)
                if self._unseen and not isinstance(error, CommitFailedException):
                    self._in_doubt, self._doubtful_parent = True, commit.parent(table)
                self.notice(f"commit attempt {attempt + 1} did not go through ({brief(error)}); asking the table")
                continue
            if result is not None:
                return result
        raise self._gave_up(commit, failure)

    def _load(self) -> Table:
        ending = "" if self._unseen else "; nothing was committed"
        try:
            table = self.catalog.load_table(self.table.identifier)
        except NoSuchTableError as error:
            raise TableReplaced(f"{self.table} was dropped or renamed meanwhile{ending}.") from error
        if str(table.metadata.table_uuid) != self.table_uuid:
            raise TableReplaced(
                f"{self.table} was dropped and created again meanwhile{ending}.", hint="Start again with the new table."
            )
        return table

    def _bear(self, error: StorageError) -> None:
        """Retries after an error of storage, because the work of a whole job depends on a few small files."""
        self._storage_failures += 1
        if self._storage_failures > STORAGE_RETRIES:
            raise error
        self.notice(f"storage failed while the commit was prepared ({brief(error)}); trying again")

    def _send(
        self, commit: CommitKind[State, Attempt, Result], table: Table, state: State, staged: Attempt, attempt: int
    ) -> Result | None:
        try:
            return commit.send(state, staged, attempt)
        except (ForbiddenError, UnauthorizedError) as error:
            raise AccessDenied(f"The catalog refused the commit to {self.table}: {brief(error)}.") from error
        except BadRequestError as error:
            if self._moved_since(commit, table):
                raise CommitFailedException(brief(error)) from error
            raise Terminal(f"The catalog rejected the commit to {self.table}: {brief(error)}.") from error

    def _moved_since(self, commit: CommitKind[State, Attempt, Result], table: Table) -> bool:
        try:
            return commit.assumptions(self._load()) != commit.assumptions(table)
        except TidybergError:
            raise
        except Exception:  # noqa: BLE001  # without an answer nobody can tell: the next attempt asks again
            return True

    def _may_still_land(self, commit: CommitKind[State, Attempt, Result]) -> bool:
        if not self._in_doubt:
            return False
        try:
            return commit.parent(self._load()) == self._doubtful_parent
        except Exception:  # noqa: BLE001  # without an answer nobody can tell; and a table may be gone by a rename
            return True

    def _gave_up(self, commit: CommitKind[State, Attempt, Result], failure: BaseException | None) -> TidybergError:
        if failure is None:
            return CatalogUnreachable(
                f"The catalog accepted the commit to {self.table}, but does not show it.",
                hint="A cache may show an older state, or another tool may have undone it. Look at the table later.",
            )
        if self._unseen or self._in_doubt:
            return self._unknown(commit, failure)
        if isinstance(failure, StorageError):
            return failure
        if isinstance(failure, CommitFailedException):
            return Conflict(
                f"{self.table} was too busy: {plural(self.sent, 'attempt')} to {commit.purpose} lost "
                f"({brief(failure)}).",
                hint="Try again when fewer writers commit, or raise commit.retries.",
            )
        if not self.sent:
            return CatalogUnreachable(
                f"The catalog did not show {self.table} when the commit was due ({brief(failure)}); "
                "nothing was committed.",
                hint="Try again when it answers.",
            )
        often = "once" if self.sent == 1 else f"{self.sent} times"
        return StorageError(
            f"The commit to {self.table} failed {often} ({brief(failure)}); the table is unchanged.",
            hint="See that the catalog's database and the table's location are writable and have room.",
        )

    def _unknown(self, commit: CommitKind[State, Attempt, Result], failure: BaseException) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"The catalog did not say whether the commit to {self.table} landed ({brief(failure)}).",
            hint=commit.hint_if_unknown,
        )


def branch_head(table: Table, branch: str) -> int | None:
    ref = table.metadata.refs.get(branch)
    return ref.snapshot_id if ref is not None else None


def end_open_transaction(catalog: Catalog) -> None:
    """Makes sure that the next load of the table sees what other processes see.

    SQLAlchemy returns a connection whose COMMIT failed to its pool with the transaction still open. That connection
    would show our own change, which no other process sees. SQLite refuses a COMMIT while another process reads.
    """
    if isinstance(catalog, SqlCatalog) and catalog.engine.url.database not in (None, "", ":memory:"):
        catalog.engine.dispose()


def brief(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text[:200] + "…") if len(text) > 200 else text or type(error).__name__
