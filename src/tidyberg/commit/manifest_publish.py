"""Commits a manifest rewrite. Retries conflicts, plans again where they require it, and asks about unknown outcomes.

New manifests of other writers stay as they are. If one of the replaced manifests is no longer in the branch, because
another writer deleted a file that it lists or rewrote it, the rewrite is planned again from the new head. A commit has
succeeded if its snapshot or one of its manifests is in the table. An error proves nothing [I7].
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidyberg.catalog.metadata_file import send_commit, swaps_in_process
from tidyberg.commit.manifest_snapshot import (
    ONLY_CHUNK,
    ManifestRewrite,
    ManifestStager,
    StagedManifests,
    listed_manifests,
)
from tidyberg.commit.ownership import metadata_file_id
from tidyberg.commit.publish import STORAGE_RETRIES, Journal, brief, end_open_transaction, numbering
from tidyberg.commit.snapshot import snapshot_of_job
from tidyberg.errors import (
    AccessDenied,
    CatalogUnreachable,
    CommitStateUnknown,
    Conflict,
    StorageError,
    TableReplaced,
    Terminal,
    TidybergError,
    UnknownReference,
)
from tidyberg.model.job import SentCommit
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.observe.manifest_list import ListedManifest


@dataclass(frozen=True)
class PublishedManifests:
    snapshot_id: int
    created: int
    replaced: int
    kept: int
    entries: int
    bytes_written: int
    attempts: int
    sequence_number: int | None  # None: format version 1, or unknown


@dataclass
class ManifestPublisher:
    catalog: Catalog
    table: TableRef
    table_uuid: str
    branch: str
    stager: ManifestStager
    journal: Journal
    plan_again: Callable[[Table], ManifestRewrite | None]  # None: there is nothing to rewrite any more
    refusal: Callable[[Table], str | None]  # why nothing may be committed to this state of the table
    replans: int
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    notice: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    _staged: dict[str, StagedManifests] = field(default_factory=dict)  # by manifest list
    _unknown_parent: int | None = None  # an attempt without an answer can succeed only while the branch is here
    _unseen: bool = False  # whether an attempt that a server may have accepted was sent since the table was last read
    _storage_failures: int = 0

    def publish(self, rewrite: ManifestRewrite) -> PublishedManifests | None:
        """Returns None if other writers left nothing to rewrite."""
        try:
            return self._publish(rewrite)
        except CommitStateUnknown:
            raise
        except TidybergError as error:
            if self._unseen or self._may_still_land():
                raise self._unknown(error) from error
            raise

    def _publish(self, rewrite: ManifestRewrite) -> PublishedManifests | None:
        deadline = time.monotonic() + self.retry.total_timeout_ms / 1000
        failure: BaseException | None = None
        for attempt in range(self.retry.retries + 2):  # the last one only checks the previous one
            if attempt:
                self.sleep(self.retry.wait_seconds(attempt - 1, self.rng))
            try:
                table = self._load()
                head = self._head(table)
                listed = listed_manifests(table, head)
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
            if head.snapshot_id != self._unknown_parent:
                self._unknown_parent = None  # the branch has moved, so that attempt can no longer succeed
            if landed := self._landed(table, listed, attempt):
                return landed
            if attempt > self.retry.retries or (failure is not None and time.monotonic() > deadline):
                break
            if (text := self.refusal(table)) is not None:
                raise Conflict(f"Nothing was committed to {self.table}: {text}.", hint="Try again afterwards.")
            try:
                if rewrite.is_stale(table, listed):
                    again = self._plan_again(table)
                    if again is None:
                        return None
                    rewrite = again
                staged = self.stager.stage(self.catalog, table, head, listed, rewrite, attempt)
            except StorageError as error:
                self._bear(error)
                failure = failure or error
                continue
            self._staged[staged.manifest_list] = staged
            try:
                number = self._send(table, staged, head, attempt)
            except TidybergError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, only the table knows whether the commit landed
                failure = error
                end_open_transaction(self.catalog)
                self._unseen = not swaps_in_process(self.catalog)
                if self._unseen and not isinstance(error, CommitFailedException):
                    self._unknown_parent = head.snapshot_id
                self.notice(f"commit attempt {attempt + 1} did not go through ({brief(error)}); asking the table")
                continue
            return self._published(staged, attempt + 1, number)
        raise self._gave_up(failure)

    def _plan_again(self, table: Table) -> ManifestRewrite | None:
        if self.replans <= 0:
            raise Conflict(
                f"Other writers keep changing the manifests of {self.table}; nothing was committed.",
                hint="Try again when fewer writers delete or rewrite files, or raise commit.replans.",
            )
        self.replans -= 1
        self.notice(f"another writer changed a manifest of {self.table}; planning again")
        return self.plan_again(table)

    def _bear(self, error: StorageError) -> None:
        self._storage_failures += 1
        if self._storage_failures > STORAGE_RETRIES:
            raise error
        self.notice(f"storage failed while the commit was prepared ({brief(error)}); trying again")

    def _load(self) -> Table:
        ending = "" if self._unseen else "; nothing was committed"
        try:
            table = self.catalog.load_table(self.table.identifier)
        except NoSuchTableError as error:
            raise TableReplaced(f"{self.table} was dropped or renamed while the job ran{ending}.") from error
        if str(table.metadata.table_uuid) != self.table_uuid:
            raise TableReplaced(f"{self.table} was dropped and created again while the job ran{ending}.")
        return table

    def _head(self, table: Table) -> Snapshot:
        ref = table.metadata.refs.get(self.branch)
        head = table.metadata.snapshot_by_id(ref.snapshot_id) if ref is not None else None
        if head is None:
            raise UnknownReference(
                f"{self.table} has no branch {self.branch!r} any more.", hint="Choose another branch."
            )
        return head

    def _landed(self, table: Table, listed: Mapping[str, ListedManifest], attempt: int) -> PublishedManifests | None:
        """I7: whether an earlier attempt has committed."""
        if snapshot := snapshot_of_job(table.metadata, self.stager.job_id, ONLY_CHUNK):
            number = (snapshot.sequence_number or None) if table.metadata.format_version > 1 else None
            staged = self._staged.get(snapshot.manifest_list) or list(self._staged.values())[-1]
            return self._published(staged, attempt, number)
        for staged in self._staged.values():
            if not listed.keys().isdisjoint(staged.created):  # the snapshot may have expired
                self.journal.check_ownership()
                return self._published(staged, attempt, None)
        return None

    def _published(self, staged: StagedManifests, attempts: int, number: int | None) -> PublishedManifests:
        return PublishedManifests(
            self.stager.snapshot_id,
            len(staged.created),
            staged.replaced,
            staged.kept,
            staged.entries,
            staged.bytes_written,
            attempts,
            number,
        )

    def _send(self, table: Table, staged: StagedManifests, head: Snapshot, attempt: int) -> int | None:
        """Returns the sequence number of the commit."""
        number = table.metadata.next_sequence_number() if table.metadata.format_version > 1 else None
        self.journal.about_to_commit(SentCommit(ONLY_CHUNK, head.snapshot_id, self.stager.snapshot_id, (), number))
        try:
            send_commit(
                self.catalog,
                table,
                staged.requirements,
                staged.updates,
                file_id=metadata_file_id(f"{self.stager.job_id}/{ONLY_CHUNK}/{attempt}"),
                about_to_write=self.journal.about_to_write,
            )
        except (ForbiddenError, UnauthorizedError) as error:
            raise AccessDenied(f"The catalog refused the commit: {brief(error)}.") from error
        except BadRequestError as error:
            if self._moved_since(table):
                raise CommitFailedException(brief(error)) from error
            raise Terminal(f"The catalog rejected the commit: {brief(error)}.") from error
        return number

    def _moved_since(self, table: Table) -> bool:
        """Whether another branch took our sequence number, or an upgrade changed what a snapshot must contain."""
        try:
            return numbering(self._load()) != numbering(table)
        except TidybergError:
            raise
        except Exception:  # noqa: BLE001  # without an answer nobody can tell: the next attempt asks again
            return True

    def _may_still_land(self) -> bool:
        if self._unknown_parent is None:
            return False
        try:
            ref = self._load().metadata.refs.get(self.branch)
        except Exception:  # noqa: BLE001  # without an answer nobody can tell; and a table may be gone by a rename
            return True
        return ref is not None and ref.snapshot_id == self._unknown_parent

    def _gave_up(self, failure: BaseException | None) -> TidybergError:
        tries = self.retry.retries + 1
        if failure is not None and (self._unseen or self._unknown_parent is not None):
            return self._unknown(failure)
        if isinstance(failure, StorageError):
            return failure
        if isinstance(failure, CommitFailedException):
            return Conflict(
                f"{self.table} was too busy: {plural(tries, 'attempt')} to commit its manifests lost "
                f"({brief(failure)}).",
                hint="Try again when fewer writers commit, or raise commit.retries.",
            )
        return CatalogUnreachable(
            f"The commit to {self.table} failed ({brief(failure)}); the table is unchanged.",
            hint="Try again when the catalog answers.",
        )

    def _unknown(self, failure: BaseException) -> CommitStateUnknown:
        return CommitStateUnknown(
            f"The catalog did not say whether the commit to {self.table} landed ({brief(failure)}).",
            hint="The new manifests were kept. Run `tidyberg recover` once the catalog answers again.",
        )
