"""Runs maintenance on one table after the other until the time of the invocation is over.

The table itself is the state between invocations: committed groups are no candidates any more, so the next invocation
plans only what is left. The job store adds what the table cannot tell: which job holds it, and what a killed one left.
"""

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from tidyberg.app import maintainer_of
from tidyberg.catalog.open import list_tables, load_table
from tidyberg.control.control import Control
from tidyberg.control.maintenance.request import maintenance_request
from tidyberg.errors import BadInput, InternalError, TidybergError, UnknownTable
from tidyberg.execute.engine import CancelToken
from tidyberg.execute.time_budget import TimeBudget, within
from tidyberg.model.expiry import EXPIRE
from tidyberg.model.maintenance import MAINTAIN
from tidyberg.model.maintenance_policy import PolicyLayer
from tidyberg.model.options import PlanOptions
from tidyberg.model.report import Event, Notice
from tidyberg.model.sizes import MB
from tidyberg.model.submission import COMPACT
from tidyberg.model.table import TableRef
from tidyberg.serverless.events import JobCall
from tidyberg.serverless.limits import Deadline
from tidyberg.serverless.report import (
    InvocationReport,
    TableReport,
    not_started,
    of_compaction,
    of_error,
    of_expiry,
    of_maintenance,
)
from tidyberg.settings.catalogs import named_catalog, resolve_table
from tidyberg.settings.job_options import ExpireJobOptions, parse_job_options
from tidyberg.settings.maintenance import PolicySettings
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings

log = logging.getLogger(__name__)

_WILDCARDS = frozenset("*?[")
_GROUPS_PER_INVOCATION = 4  # what is stopped at the end of an invocation is then at most a quarter of its work
_SMALLEST_GROUP = 8 * MB
_SHORTEST_START = 0.25  # the share of the reserve below which no table is begun


@dataclass(frozen=True)
class TableJobs:
    settings: Settings
    control: Control

    def run(self, call: JobCall, deadline: Deadline) -> InvocationReport:
        options = _checked_options(call)
        tables = self._tables(call)
        rate = self.control.calibration(lambda _: False).calibration.encode_bytes_per_core_second
        budget = TimeBudget(deadline.left, deadline.reserve_seconds, rate)
        limit = largest_group(rate, deadline.working_seconds)
        reports: list[TableReport] = []
        with deadline.cancelling() as cancel, within(budget):
            for ref in tables:
                if deadline.working_seconds < deadline.reserve_seconds * _SHORTEST_START:
                    report = not_started(str(ref))
                else:
                    report = self._run_one(_TableJob(self, call.kind, ref, options, limit, cancel))
                log.info("%s: %s: %s", report.table, report.outcome, report.message)
                reports.append(report)
        return InvocationReport(tuple(reports))

    def _run_one(self, job: "_TableJob") -> TableReport:
        try:
            return job.run()
        except TidybergError as error:
            failure = error
        except Exception as error:
            log.exception("%s failed", job.ref)
            words = self.control.scrub(f"{type(error).__name__}: {error}")
            failure = InternalError(f"Unexpected failure: {words}", hint="This is a bug in tidyberg.")
        return of_error(str(job.ref), failure, self.control.store.get(job.job_id))

    def _tables(self, call: JobCall) -> list[TableRef]:
        """Return each table once. Those whose last job is the oldest come first, so that none has to wait forever."""
        catalog = self.control.catalog(named_catalog(self.settings, call.catalog))
        wanted = call.tables or tuple(entry.name for entry in self.settings.tables)
        if not wanted:
            raise BadInput(
                "Neither the event nor the settings name a table.",
                hint='Send {"tables": ["sales.orders"]}, or set serverless.tables.',
            )
        there = list_tables(catalog) if any(_WILDCARDS & set(name) for name in wanted) else []

        def found(name: str) -> Iterator[TableRef]:
            if not _WILDCARDS & set(name):
                yield resolve_table(self.settings, catalog, name)
                return
            matching = [ref for ref in there if fnmatchcase(str(ref) if "." in name else ref.name, name)]
            if not matching:
                raise UnknownTable(f"No table of catalog {catalog.name!r} matches {name!r}.")
            yield from matching

        refs = dict.fromkeys(ref for name in wanted for ref in found(name))
        return sorted(refs, key=self._last_job_ms)

    def _last_job_ms(self, ref: TableRef) -> int:
        return max((job.created_ms for job in self.control.history(ref, limit=1)), default=0)


@dataclass(frozen=True)
class _TableJob:
    jobs: TableJobs
    kind: str
    ref: TableRef
    options: Any  # as `_checked_options` returns them for the kind
    largest_group: int
    cancel: CancelToken
    job_id: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "job_id", str(uuid.uuid4()))

    def run(self) -> TableReport:
        run: Mapping[str, Callable[[], TableReport]] = {
            COMPACT: self._compact,
            EXPIRE: self._expire,
            MAINTAIN: self._maintain,
        }
        return run[self.kind]()

    def _compact(self) -> TableReport:
        settings, control = self.jobs.settings, self.jobs.control
        options = self._within_time(plan_options(settings, self.ref, self.options))
        result = control.compact(
            self.ref, options, verify=settings.verify, on_event=_log_notice, cancel=self.cancel, job_id=self.job_id
        )
        return of_compaction(result)

    def _expire(self) -> TableReport:
        options: ExpireJobOptions = self.options
        result = self.jobs.control.expire(
            self.ref, options.to_options(), on_event=_log_notice, cancel=self.cancel, job_id=self.job_id
        )
        return of_expiry(result)

    def _maintain(self) -> TableReport:
        policy: PolicySettings = self.options
        control = self.jobs.control
        table = load_table(control.catalog(self.ref.catalog), self.ref)
        asked = (PolicyLayer("request", policy.given()),)
        request = maintenance_request(self.jobs.settings, self.ref, table, asked)
        request = replace(request, compaction=self._within_time(request.compaction))
        return of_maintenance(maintainer_of(control, _log_notice, self.cancel).run(request))

    def _within_time(self, options: PlanOptions) -> PlanOptions:
        given = options.max_group_size
        return replace(options, max_group_size=min(given or self.largest_group, self.largest_group))


def largest_group(bytes_per_second: float, seconds: float) -> int:
    """Return the most bytes of a group, so that an invocation ends several.

    It is a power of two: small differences of the speed and of the time must not change it, because a job continues
    what a killed one had finished only if it has the same options.
    """
    fits = max(_SMALLEST_GROUP, int(bytes_per_second * max(0.0, seconds) / _GROUPS_PER_INVOCATION))
    return 1 << (fits.bit_length() - 1)


def _checked_options(call: JobCall) -> Any:
    """Check the options before the first table is begun."""
    parsed = parse_job_options(call.kind, call.options)
    return dict(call.options) if call.kind == COMPACT else parsed


def _log_notice(event: Event) -> None:
    if isinstance(event, Notice):
        log.log(logging.WARNING if event.level == "warning" else logging.INFO, "%s", event.message)
