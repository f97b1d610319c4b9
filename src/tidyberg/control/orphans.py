"""Jobs that deal with orphans: each holds its table while it works, and records how it ended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.open import load_table
from tidyberg.control.context import JobPolicy, Services
from tidyberg.control.held_table import HeldTable, HoldRequest, hold_table
from tidyberg.control.orphan_plan import OrphanFinder
from tidyberg.control.orphan_sightings import Sightings
from tidyberg.control.orphan_work import OrphanWork, first_refused, refused_files
from tidyberg.control.quarantine import Quarantine, QuarantinedFiles, restore
from tidyberg.errors import BadInput, UnknownJob
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Stage
from tidyberg.model.orphans import (
    LEAST_AGE_MS,
    ORPHANS,
    PURGE,
    RESTORE,
    CatalogLocations,
    OrphanOptions,
    OrphanPlan,
    OrphanResult,
    QuarantineResult,
)
from tidyberg.model.report import EventSink, StageStarted
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.observe.orphans import referenced_among
from tidyberg.observe.reachable import ReachedManifests
from tidyberg.storage.table_files import delete_many


@dataclass(frozen=True)
class OrphansJob:
    table: TableRef
    job_id: str  # no job has had it before
    services: Services
    policy: JobPolicy
    catalog: Catalog
    locations: Callable[[Catalog, Callable[[], None]], CatalogLocations]

    def plan(self, options: OrphanOptions, emit: EventSink, cancel: CancelToken) -> OrphanPlan:
        """Says what `remove` would do. Changes nothing, and takes no lease."""
        finder = self._finder(options, emit, cancel.raise_if_cancelled)
        found = finder.find(load_table(self.catalog, self.table))
        return finder.plan(found, self.services.prices.storage_per_gb_month)

    def remove(self, options: OrphanOptions, emit: EventSink, cancel: CancelToken) -> OrphanResult:
        with self._hold(ORPHANS, options.as_options(), emit, cancel) as (held, table):
            finder = self._finder(options, emit, held.cancel.raise_if_cancelled)
            return OrphanWork(finder, options, held).run(table)

    def restore(self, of_job: str | None, emit: EventSink, cancel: CancelToken) -> QuarantineResult:
        """Brings quarantined files back: those of one run, or of all."""
        with self._hold(RESTORE, {"job": of_job} if of_job else {}, emit, cancel) as (held, table):
            chosen = self._chosen(table, of_job)
            emit(StageStarted(Stage.EXECUTE, f"restoring the files of {plural(len(chosen), 'run')}"))
            done = [restore(one, held.check_ownership) for one in chosen]
            refused = {path: said for one in done for path, said in one.refused.items()}
            result = QuarantineResult(
                self.table,
                "partly" if refused else "restored" if chosen else "nothing",
                tuple(one.job_id for one in chosen),
                sum(one.files for one in done),
                sum(one.bytes for one in done),
                already_there=sum(one.already_there for one in done),
            )
            return _end(held, result, refused, "restored")

    def purge(self, of_job: str | None, older_than_ms: int, emit: EventSink, cancel: CancelToken) -> QuarantineResult:
        """Deletes quarantined files of runs that are older than an age."""
        if older_than_ms < LEAST_AGE_MS and of_job is None:
            raise BadInput("An age below 24 hours needs the run to purge.", hint="Name it with --job.")
        with self._hold(PURGE, {"older_than_ms": older_than_ms}, emit, cancel) as (held, table):
            runs, check = self._chosen(table, of_job), held.check_ownership
            now = self._earliest_now_ms(table) if runs else 0
            chosen = [one for one in runs if one.age_ms(now) >= older_than_ms]
            emit(StageStarted(Stage.EXECUTE, f"deleting the files of {plural(len(chosen), 'run')}"))
            refused: dict[str, str] = {}
            files = size = 0
            for one in chosen:
                there, unnamed = one.recorded()
                if unnamed:
                    held.warn(f"{plural(len(unnamed), 'file')} stay, because {one.record} does not name {unnamed[0]}")
                reached = ReachedManifests(table.io, check, self.services.engine_reads)
                reached.add(table.metadata.snapshots)
                needed = referenced_among(sorted(there), table, reached)
                going = sorted(set(there) - needed)
                said = delete_many(table.io, going, check=check)
                if not said and not needed and not unnamed and (about_record := one.remove_record()) is not None:
                    said = {one.record: about_record}
                refused |= said
                files += len(going) - len(said)
                size += sum(there[path] for path in going if path not in said)
            result = QuarantineResult(
                self.table,
                "partly" if refused else "purged" if chosen else "nothing",
                tuple(one.job_id for one in chosen),
                files,
                size,
            )
            return _end(held, result, refused, "purged")

    def _finder(self, options: OrphanOptions, emit: EventSink, check: Callable[[], None]) -> OrphanFinder:
        def notify(text: str) -> None:
            emit(StageStarted(Stage.OBSERVE, text))

        store, now = self.services.store, self.services.now_ms()
        return OrphanFinder(
            self.table,
            options,
            self.catalog,
            store,
            self.locations,
            now,
            check,
            notify,
            self.services.engine_reads,
            own_run=self.job_id,
        )

    def _earliest_now_ms(self, table: Table) -> int:
        """Ages are differences of the store's own times: this machine's clock may be ahead of them."""
        now, of_store = self.services.now_ms(), Sightings(table).touch()
        return now if of_store is None else min(now, of_store)

    def _chosen(self, table: Table, of_job: str | None) -> list[QuarantinedFiles]:
        runs = Quarantine(table).runs()
        if of_job is None:
            return runs
        chosen = [run for run in runs if run.job_id.startswith(of_job)]
        if len(chosen) != 1:
            known = ", ".join(run.job_id for run in runs)
            raise UnknownJob(
                f"{plural(len(chosen), 'run')} with the id {of_job!r} moved files of {self.table} to quarantine.",
                hint=f"The quarantine has files of {known}." if runs else "Nothing is in quarantine.",
            )
        return chosen

    @contextmanager
    def _hold(
        self, kind: str, options: dict[str, Any], emit: EventSink, cancel: CancelToken
    ) -> Iterator[tuple[HeldTable, Table]]:
        asked = HoldRequest(self.table, self.job_id, kind, options)
        with hold_table(asked, self.services, self.policy, self.catalog, emit, cancel) as held:
            yield held, held.table or held.load()


def _end(held: HeldTable, result: QuarantineResult, refused: dict[str, str], verb: str) -> QuarantineResult:
    failure = refused_files(refused, "file", verb, "Run it again.")
    job = held.finish(f"{plural(result.files, 'file')} {verb}", failure)
    return replace(result, refused=len(refused), first_refused=first_refused(refused), failure=failure, job=job)
