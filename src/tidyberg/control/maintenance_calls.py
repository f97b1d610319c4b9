"""The calls of `Control` that maintain a table apart from compactions: expiries, orphans, manifests, metadata files."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tidyberg.control.control_base import ControlBase, ignore_events
from tidyberg.execute.engine import CancelToken
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.manifest_rewrite import ManifestOptions, ManifestPlan, ManifestRewriteResult
from tidyberg.model.options import PlanOptions
from tidyberg.model.orphans import (
    CatalogLocations,
    OrphanOptions,
    OrphanPlan,
    OrphanResult,
    QuarantineResult,
    SharedLocation,
)
from tidyberg.model.report import EventSink
from tidyberg.model.table import TableRef

if TYPE_CHECKING:
    from tidyberg.control.catalog_locations import LocationsCache
    from tidyberg.control.manifest_rewrite import ManifestJob
    from tidyberg.control.metadata_files import MetadataFileSettings
    from tidyberg.control.orphans import OrphansJob
    from tidyberg.control.query_advice import QueryAdviser
    from tidyberg.control.table_advice import TableAdvice


@dataclass
class MaintenanceCalls(ControlBase):
    _locations: "LocationsCache | None" = None

    def expire(
        self,
        ref: TableRef,
        options: ExpireOptions,
        *,
        dry_run: bool = False,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        job_id: str | None = None,
        submission_id: str | None = None,
        sent_before: frozenset[int] = frozenset(),
    ) -> ExpiryResult:
        """Expires snapshots, and deletes the files that no retained snapshot references.

        `sent_before` are snapshots that earlier attempts at the submission may have expired.
        """
        from tidyberg.control.expiry import ExpiryJob
        from tidyberg.control.expiry_work import ExpiryRequest

        request = ExpiryRequest(ref, options, job_id or str(uuid.uuid4()), submission_id, sent_before)
        with self._traced("expire_snapshots", ref, request.job_id, submission_id) as span:
            job = ExpiryJob(request, self._services, self._policy, self.catalog(ref.catalog))
            emit, token = on_event or ignore_events, cancel or CancelToken()
            result = job.preview(emit, token) if dry_run else job.run(emit, token)
            span.set(outcome=result.outcome, files=result.files.files, bytes=result.files.bytes)
            return result

    def metadata_files(self, ref: TableRef) -> "MetadataFileSettings":
        """Returns an object that reports how many old metadata files a table keeps, and sets it."""
        from tidyberg.control.metadata_files import MetadataFileSettings

        return MetadataFileSettings(ref, self.catalog(ref.catalog), self._services)

    def advice(self, ref: TableRef, options: PlanOptions, window_ms: int) -> "TableAdvice":
        """Returns an object that advises how to prevent small files, from the commits of this window."""
        from tidyberg.control.table_advice import TableAdvice

        catalog, resources = self.catalog(ref.catalog), self.resources
        calibration = partial(self._planner.calibration, resources)
        return TableAdvice(ref, catalog, self._services, resources, calibration, options, window_ms)

    def query_adviser(self, ref: TableRef, options: PlanOptions) -> "QueryAdviser":
        """Returns an object that advises which layout the queries of a table need."""
        from tidyberg.control.query_advice import QueryAdviser

        return QueryAdviser(ref, self.catalog(ref.catalog), self._planner, options)

    def plan_orphans(
        self,
        ref: TableRef,
        options: OrphanOptions,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> OrphanPlan:
        """Finds files that no snapshot references, and says which of them `remove_orphans` would delete now."""
        return self._orphans(ref).plan(options, on_event or ignore_events, cancel or CancelToken())

    def remove_orphans(
        self,
        ref: TableRef,
        options: OrphanOptions,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        job_id: str | None = None,
    ) -> OrphanResult:
        """Deletes, or moves to quarantine, files that no snapshot references. It makes its own plan."""
        job = self._orphans(ref, job_id)
        with self._traced("remove_orphans", ref, job.job_id) as span:
            result = job.remove(options, on_event or ignore_events, cancel or CancelToken())
            span.set(outcome=result.outcome, files=result.files.files, bytes=result.files.bytes)
            return result

    def restore_orphans(
        self,
        ref: TableRef,
        of_job: str | None = None,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> QuarantineResult:
        """Brings quarantined files back: those of one run, or of all."""
        return self._orphans(ref).restore(of_job, on_event or ignore_events, cancel or CancelToken())

    def purge_orphans(
        self,
        ref: TableRef,
        older_than_ms: int,
        of_job: str | None = None,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> QuarantineResult:
        """Deletes files that were moved to quarantine longer ago than this."""
        return self._orphans(ref).purge(of_job, older_than_ms, on_event or ignore_events, cancel or CancelToken())

    def check_locations(
        self, catalog: str | None = None, cancel: CancelToken | None = None
    ) -> tuple[CatalogLocations, list[SharedLocation]]:
        """Loads every table of a catalog, and returns those that share a directory."""
        from tidyberg.control.catalog_locations import find_locations
        from tidyberg.observe.shared_locations import shared_locations

        check = (cancel or CancelToken()).raise_if_cancelled
        found = find_locations(self.catalog(catalog), self.open_catalog, check)
        return found, shared_locations(found.tables)

    def table_at(self, path: str, catalogs: Sequence[str], cancel: CancelToken | None = None) -> TableRef | None:
        """Returns the table below whose location a file lies, the innermost if several are nested.

        A table that was created in the last minutes may not be known yet.
        """
        from tidyberg.observe.locations import root_of

        check = (cancel or CancelToken()).raise_if_cancelled
        found = [
            (root, one.table)
            for catalog in catalogs
            for one in self._known_locations().get(self.catalog(catalog), check).tables
            if (root := root_of(path, one.roots)) is not None
        ]
        return max(found, key=lambda pair: len(pair[0]))[1] if found else None

    def plan_manifests(
        self, ref: TableRef, options: ManifestOptions, *, cancel: CancelToken | None = None
    ) -> ManifestPlan:
        """Says what `rewrite_manifests` would do, whether it pays, and why. Changes nothing."""
        return self._manifest_job(ref, options, None).plan(cancel or CancelToken())

    def rewrite_manifests(
        self,
        ref: TableRef,
        options: ManifestOptions,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        job_id: str | None = None,
    ) -> ManifestRewriteResult:
        """Clusters the entries of manifests by partition, in manifests of the right size, if that pays."""
        job = self._manifest_job(ref, options, job_id)
        with self._traced("rewrite_manifests", ref, job.request.job_id) as span:
            result = job.run(on_event or ignore_events, cancel or CancelToken())
            span.set(outcome=result.outcome, files=result.replaced, bytes=result.bytes_written)
            return result

    def _manifest_job(self, ref: TableRef, options: ManifestOptions, job_id: str | None) -> "ManifestJob":
        from tidyberg.control.manifest_rewrite import ManifestJob, ManifestRequest

        request = ManifestRequest(ref, options, job_id or str(uuid.uuid4()))
        return ManifestJob(request, self._services, self._policy, self.catalog(ref.catalog), self._dead_jobs)

    def _orphans(self, ref: TableRef, job_id: str | None = None) -> "OrphansJob":
        from tidyberg.control.orphans import OrphansJob

        catalog, locations = self.catalog(ref.catalog), self._known_locations()
        return OrphansJob(ref, job_id or str(uuid.uuid4()), self._services, self._policy, catalog, locations.get)

    def _known_locations(self) -> "LocationsCache":
        from tidyberg.control.catalog_locations import LocationsCache

        if self._locations is None:
            self._locations = LocationsCache(self.open_catalog, self.now_ms)
        return self._locations
