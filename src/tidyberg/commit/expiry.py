"""Commits an expiry: removes snapshots, refs and statistics from the metadata. Retries until the outcome is known.

The commit requires that every ref is where it was when the decision was made. Otherwise a rollback, a new commit or a
moved tag between the decision and the commit could need a snapshot that the commit removes. After a conflict the caller
decides again. The commit adds no snapshot, so the table itself shows whether it landed: what it removes is gone.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)

from tidyberg.catalog.metadata_file import send_commit, swaps_in_process
from tidyberg.commit.ownership import metadata_file_id
from tidyberg.commit.publish import brief, end_open_transaction
from tidyberg.errors import (
    AccessDenied,
    CatalogUnreachable,
    CommitStateUnknown,
    Conflict,
    TableReplaced,
    Terminal,
    TidybergError,
)
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural


class AssertSameRefs(ValidatableTableRequirement):
    """For catalogs that validate in PyIceberg: no branch or tag was created, moved or dropped.

    REST servers would not know this requirement. They get an assertion for each ref, which does not cover a new one.
    """

    type: Literal["assert-same-refs"] = Field(default="assert-same-refs")
    refs: dict[str, int]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as PyIceberg's own
        if base_metadata is None or _targets(base_metadata) != self.refs:
            raise CommitFailedException("A branch or a tag was created, moved or dropped")


@dataclass(frozen=True)
class MetadataRemoval:
    """What leaves the table's metadata in one commit."""

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.snapshot_ids or self.refs or self.schema_ids or self.spec_ids)

    def is_done(self, metadata: TableMetadata) -> bool:
        """Whether nothing of it is in the table any more."""
        return (
            {one.snapshot_id for one in metadata.snapshots}.isdisjoint(self.snapshot_ids)
            and set(metadata.refs).isdisjoint(self.refs)
            and {one.schema_id for one in metadata.schemas}.isdisjoint(self.schema_ids)
            and {one.spec_id for one in metadata.partition_specs}.isdisjoint(self.spec_ids)
        )

    def requirements(self, catalog: Catalog, metadata: TableMetadata) -> tuple[TableRequirement, ...]:
        found: list[Any] = [AssertTableUUID(uuid=metadata.table_uuid)]
        found += [AssertRefSnapshotId(ref=name, snapshot_id=number) for name, number in _targets(metadata).items()]
        if self.schema_ids:
            found.append(AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id))
        if self.spec_ids:
            found.append(AssertDefaultSpecId(default_spec_id=metadata.default_spec_id))
        if not isinstance(catalog, RestCatalog):
            found.append(AssertSameRefs(refs=_targets(metadata)))
        return tuple(found)

    def updates(self, catalog: Catalog, metadata: TableMetadata) -> tuple[TableUpdate, ...]:
        """Statistics go first, because PyIceberg removes those of a removed snapshot itself, and then misses them."""
        gone = set(self.snapshot_ids)
        statistics = dict.fromkeys(one.snapshot_id for one in metadata.statistics if one.snapshot_id in gone)
        by_partition = dict.fromkeys(
            one.snapshot_id for one in metadata.partition_statistics if one.snapshot_id in gone
        )
        found: list[Any] = [RemoveStatisticsUpdate(snapshot_id=number) for number in statistics]
        found += [RemovePartitionStatisticsUpdate(snapshot_id=number) for number in by_partition]
        found += [RemoveSnapshotRefUpdate(ref_name=name) for name in self.refs]
        if isinstance(catalog, RestCatalog):  # older servers take only one snapshot in an update
            found += [RemoveSnapshotsUpdate(snapshot_ids=[number]) for number in self.snapshot_ids]
        elif self.snapshot_ids:
            found.append(RemoveSnapshotsUpdate(snapshot_ids=list(self.snapshot_ids)))
        if self.spec_ids:
            found.append(RemovePartitionSpecsUpdate(spec_ids=list(self.spec_ids)))
        if self.schema_ids:
            found.append(RemoveSchemasUpdate(schema_ids=list(self.schema_ids)))
        return tuple(found)


def removable_refs(catalog: Catalog, metadata: TableMetadata, names: Sequence[str]) -> tuple[str, ...]:
    """PyIceberg refuses to remove a ref whose snapshot is missing. REST servers do it."""
    if isinstance(catalog, RestCatalog):
        return tuple(names)
    known = {one.snapshot_id for one in metadata.snapshots}
    return tuple(name for name in names if metadata.refs[name].snapshot_id in known)


@dataclass
class ExpiryPublisher:
    catalog: Catalog
    table: TableRef
    job_id: str
    about_to_write: Callable[[Sequence[str]], None]
    about_to_commit: Callable[[str, MetadataRemoval], None]  # gets the metadata file it is based on; raises to end it
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    notice: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    attempts: int = 0
    in_doubt: bool = False  # whether a server may still carry out an attempt that it did not answer
    _sent: list[MetadataRemoval] = field(default_factory=list)

    def publish(self, table: Table, decide: Callable[[Table], MetadataRemoval]) -> MetadataRemoval:
        """Returns what was removed. `decide` is called for each state of the table that a commit is based on.

        Even the first attempt loads the table again: it may have taken minutes to find the files, and a REST server
        does not notice if a tag was created meanwhile.
        """
        deadline = time.monotonic() + self.retry.total_timeout_ms / 1000
        failure: BaseException | None = None
        for attempt in range(self.retry.retries + 2):  # the last round sends nothing: it asks how the one before ended
            if attempt:
                self.sleep(self.retry.wait_seconds(attempt - 1, self.rng))
            loaded = self._load(table)
            if loaded is None:
                continue
            # Newest first: an attempt that another tool completed removed no less than it wanted to.
            for sent in reversed(self._sent):
                if sent.is_done(loaded.metadata):
                    return sent
            if attempt > self.retry.retries or (failure is not None and time.monotonic() > deadline):
                break
            removal = decide(loaded)
            if removal.is_empty:
                return removal
            try:
                self._send(loaded, removal)
            except TidybergError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever it is, only the table knows whether the commit landed
                failure = error
                if not isinstance(error, CommitFailedException) and not swaps_in_process(self.catalog):
                    self.in_doubt = True
                end_open_transaction(self.catalog)
                self.notice(f"commit attempt {self.attempts} did not go through ({brief(error)}); asking the table")
                continue
            return removal
        raise self._gave_up(failure)

    def _load(self, table: Table) -> Table | None:
        try:
            loaded = self.catalog.load_table(self.table.identifier)
        except NoSuchTableError as error:
            raise TableReplaced(f"{self.table} was dropped or renamed while the job ran.") from error
        except TidybergError:
            raise
        except Exception as error:  # noqa: BLE001  # clients have many; a catalog that is away may come back
            self.notice(f"the catalog did not show {self.table} ({brief(error)}); asking again")
            return None
        if loaded.metadata.table_uuid != table.metadata.table_uuid:
            raise TableReplaced(f"{self.table} was dropped and created again while the job ran.", hint="Try again.")
        return loaded

    def _send(self, table: Table, removal: MetadataRemoval) -> None:
        self.about_to_commit(table.metadata_location, removal)
        self.attempts += 1
        self._sent.append(removal)
        try:
            send_commit(
                self.catalog,
                table,
                removal.requirements(self.catalog, table.metadata),
                removal.updates(self.catalog, table.metadata),
                file_id=metadata_file_id(f"{self.job_id}/expire/{self.attempts}"),
                about_to_write=self.about_to_write,
            )
        except (ForbiddenError, UnauthorizedError) as error:
            raise AccessDenied(f"The catalog refused the commit: {brief(error)}.") from error
        except BadRequestError as error:
            if (now := self._load(table)) is not None and _targets(now.metadata) == _targets(table.metadata):
                raise Terminal(f"The catalog rejected the commit: {brief(error)}.") from error
            raise CommitFailedException(brief(error)) from error

    def _gave_up(self, failure: BaseException | None) -> TidybergError:
        if self.in_doubt:
            return CommitStateUnknown(
                f"The catalog did not say whether the commit to {self.table} landed ({brief(failure)}).",
                hint="No file was deleted. Run `tidyberg recover` once the catalog answers again.",
            )
        if isinstance(failure, CommitFailedException):
            return Conflict(
                f"{self.table} was too busy: {plural(self.attempts, 'attempt')} to expire its snapshots lost "
                f"({brief(failure)}).",
                hint="Try again when fewer writers commit, or raise commit.retries.",
            )
        return CatalogUnreachable(
            f"The commit to {self.table} failed ({brief(failure)}); no file was deleted.",
            hint="Try again when the catalog answers.",
        )


def _targets(metadata: TableMetadata) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in sorted(metadata.refs.items())}
