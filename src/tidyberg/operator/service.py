"""Asks a service about one policy: for its schedule, its latest job, and the state of its tables."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tidyberg.client import AsyncClient, Job, Schedule, Table, TableHealth
from tidyberg.errors import UnknownSchedule

MOST_TABLES_MEASURED = 20  # each costs the service a look at the table's metadata
_SET_BY_SERVICE = {"source", "last_due", "next_due"}


@dataclass(frozen=True)
class Debt:
    """How untidy the tables of a policy are. The worst table gives the score and the reasons."""

    tables: int
    measured: int
    worst_table: str
    health_score: int
    reasons: tuple[str, ...]
    files: int
    small_files: int
    delete_files: int
    bytes: int


@dataclass
class ScheduleService:
    """The service that runs the jobs. A connection is opened for each look, so that a rotated token takes effect."""

    connect: Callable[[], AsyncClient]
    _default_catalog: str | None = field(default=None, init=False)

    async def ensure(self, wanted: Schedule, fingerprint: str | None) -> tuple[Schedule, str]:
        """Saves the schedule unless the service has it, and returns it with its new fingerprint.

        A save forgets due times that were missed, so an unchanged schedule is not saved again.
        """
        async with self.connect() as client:
            try:
                found = await client.schedule(wanted.schedule_id)
            except UnknownSchedule:
                found = None
            if found is None or fingerprint_of(wanted, found) != fingerprint:
                found = await client.save_schedule(wanted)
            return found, fingerprint_of(wanted, found)

    async def remove(self, schedule_id: str) -> None:
        """Deletes the schedule. A schedule that is already gone is no error, because a crash may have come between."""
        async with self.connect() as client:
            try:
                await client.delete_schedule(schedule_id)
            except UnknownSchedule:
                return

    async def latest_job(self, schedule_id: str) -> Job | None:
        async with self.connect() as client:
            page = await client.jobs(created_by=f"schedule:{schedule_id}", limit=1)
            return await client.job(page.jobs[0].job_id) if page.jobs else None

    async def debt(self, schedule: Schedule) -> Debt | None:
        """Measures the tables of the schedule, at most `MOST_TABLES_MEASURED` of them. None means that it has none."""
        async with self.connect() as client:
            tables = await self._tables(client, schedule)
            found = [await client.health(*one) for one in tables[:MOST_TABLES_MEASURED]]
        return _sum(found, len(tables)) if found else None

    async def _tables(self, client: AsyncClient, schedule: Schedule) -> list[tuple[str, str, str]]:
        namespace, dot, name = schedule.table.rpartition(".")
        if not dot or any(character in schedule.table for character in "*?["):
            listed = await client.tables(catalog=schedule.catalog)
            return [(one.catalog, one.namespace, one.table) for one in listed if _covers(schedule.table, one)]
        catalog = schedule.catalog or self._default_catalog
        if catalog is None:
            # Only a list of tables says what the default catalog is called.
            listed = await client.tables(namespace=namespace)
            self._default_catalog = catalog = next((one.catalog for one in listed), None)
        return [] if catalog is None else [(catalog, namespace, name)]


def fingerprint_of(wanted: Schedule, found: Schedule) -> str:
    """Identifies a wanted schedule together with the schedule that the service made of it.

    The service rewrites options (`512MB` becomes a number), so the two cannot be compared with each other.
    """
    both = [one.model_dump(mode="json", exclude=_SET_BY_SERVICE) for one in (wanted, found)]
    return hashlib.sha256(json.dumps(both, sort_keys=True).encode()).hexdigest()[:32]


def _covers(pattern: str, table: Table) -> bool:
    return fnmatchcase(f"{table.namespace}.{table.table}" if "." in pattern else table.table, pattern)


def _sum(found: Sequence[TableHealth], tables: int) -> Debt:
    worst = min(found, key=lambda health: health.score)
    return Debt(
        tables=tables,
        measured=len(found),
        worst_table=f"{worst.namespace}.{worst.table}",
        health_score=worst.score,
        reasons=tuple(worst.reasons),
        files=sum(health.files for health in found),
        small_files=sum(health.small_files for health in found),
        delete_files=sum(health.delete_files for health in found),
        bytes=sum(health.bytes for health in found),
    )
