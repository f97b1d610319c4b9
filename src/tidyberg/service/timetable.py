"""All schedules, from the settings and from the API, with the tables that each one covers."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tidyberg.errors import BadInput, UnknownCatalog
from tidyberg.model.principal import Principal, Role
from tidyberg.model.submission import COMPACT, Schedule
from tidyberg.model.table import TableRef
from tidyberg.service.kinds import kind_of
from tidyberg.settings.catalogs import default_catalog_name
from tidyberg.settings.job_options import plain_options
from tidyberg.settings.options import entry_for
from tidyberg.settings.schedules import ScheduleLine
from tidyberg.settings.sections import TableEntry
from tidyberg.settings.settings import Settings

ENABLED_PROPERTY = "tidyberg.enabled"  # a table property; "false" excludes the table from schedules and `auto`
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True)
class ScheduledTables:
    """A schedule and the tables of its catalog that it covers."""

    schedule: Schedule
    catalog: str
    covers: Callable[[TableRef], bool]

    @property
    def only_table(self) -> TableRef | None:
        """The single table of the schedule, or None if the catalog must be listed."""
        name = self.schedule.table
        if "." not in name or has_wildcards(name):
            return None
        try:
            return TableRef.parse(name, self.catalog)
        except BadInput:
            return None


def has_wildcards(name: str) -> bool:
    return bool(_WILDCARDS & set(name))


def timetable(settings: Settings, kept: Sequence[Schedule]) -> list[ScheduledTables]:
    """Combines the schedules of the settings with `kept`, the schedules of the API."""
    of_api = [timed for schedule in kept if (timed := _of_api(settings, schedule)) is not None]
    return [*_of_settings(settings, of_api), *of_api]


def settings_schedules(settings: Settings) -> list[Schedule]:
    return [timed.schedule for timed in _of_settings(settings, [])]


def acting_for(schedule: Schedule) -> Principal:
    """Returns the principal that submits the jobs. A schedule of the API acts only for its tenant."""
    name = f"schedule:{schedule.schedule_id}"
    if schedule.source == "settings":
        return Principal(name, Role.ADMIN)
    # Whoever saved the schedule was allowed to submit such jobs.
    return Principal(name, Role.OPERATOR, schedule.tenant, kind_of(schedule.kind).rights(schedule.options))


def scheduled_catalogs(settings: Settings, named: Sequence[str]) -> list[str]:
    """Returns the named catalogs, or all of the settings, or the default of PyIceberg's configuration."""
    if named or settings.known_catalogs:
        return list(named or settings.known_catalogs)
    try:
        return [default_catalog_name(settings)]
    except UnknownCatalog:
        return []


def _of_settings(settings: Settings, of_api: Sequence[ScheduledTables]) -> list[ScheduledTables]:
    named = [timed for line in settings.schedules for timed in _of_line(settings, line)]
    found: dict[str, ScheduledTables] = {timed.schedule.schedule_id: timed for timed in named}
    catalogs = scheduled_catalogs(settings, settings.scheduler.catalogs)
    for entry in settings.tables:
        for catalog in [entry.catalog] if entry.catalog else catalogs:
            timed = _of_entry(settings, entry, catalog)
            if timed is not None:
                found.setdefault(timed.schedule.schedule_id, timed)  # the first entry of a name wins
    for catalog in catalogs:
        if settings.scheduler.default_schedule is not None:
            timed = _default(settings, settings.scheduler.default_schedule, catalog, [*named, *of_api])
            found[timed.schedule.schedule_id] = timed
    return list(found.values())


def _of_entry(settings: Settings, entry: TableEntry, catalog: str) -> ScheduledTables | None:
    if entry.schedule is None:
        return None
    scheduler = settings.scheduler
    schedule = Schedule(
        schedule_id=_schedule_id("table", catalog, entry.name),
        cron=entry.schedule,
        catalog=catalog,
        table=entry.name,
        timezone=entry.timezone if entry.timezone is not None else scheduler.timezone,
        jitter_seconds=entry.jitter_seconds if entry.jitter_seconds is not None else scheduler.jitter_seconds,
        missed=entry.missed if entry.missed is not None else scheduler.missed,
        strategy=entry.strategy.value if entry.strategy is not None else None,
        options=entry.options.model_dump(mode="json", exclude_none=True),  # only to be shown
        source="settings",
        has_own_options=False,
    )
    # The first entry that matches a table applies to it. The job reads its options when it runs.
    return ScheduledTables(schedule, catalog, lambda ref: entry_for(settings, ref) is entry)


def _of_line(settings: Settings, line: ScheduleLine) -> Iterator[ScheduledTables]:
    """Makes a schedule for each catalog of a line under `schedules:`."""
    scheduler = settings.scheduler
    for catalog in [line.catalog] if line.catalog else scheduled_catalogs(settings, scheduler.catalogs):
        schedule = Schedule(
            schedule_id=_schedule_id(line.kind, catalog, line.schedule_name),
            cron=line.cron,
            catalog=catalog,
            table=line.table,
            kind=line.kind,
            strategy=line.strategy.value if line.strategy is not None else None,
            options=plain_options(line.options),
            timezone=line.timezone if line.timezone is not None else scheduler.timezone,
            jitter_seconds=line.jitter_seconds if line.jitter_seconds is not None else scheduler.jitter_seconds,
            missed=line.missed if line.missed is not None else scheduler.missed,
            enabled=line.enabled,
            priority=line.priority,
            source="settings",
        )
        yield ScheduledTables(schedule, catalog, _matching(schedule.table))


def _default(settings: Settings, cron: str, catalog: str, scheduled: Sequence[ScheduledTables]) -> ScheduledTables:
    """Covers the tables that have no schedule of their own. `scheduled` are schedules that are not of an entry."""
    scheduler = settings.scheduler
    schedule = Schedule(
        schedule_id=_schedule_id("default", catalog, "*"),
        cron=cron,
        catalog=catalog,
        table="*",
        timezone=scheduler.timezone,
        jitter_seconds=scheduler.jitter_seconds,
        missed=scheduler.missed,
        source="settings",
        has_own_options=False,
    )
    others = [timed for timed in scheduled if timed.schedule.kind == COMPACT]  # other kinds replace no compaction

    def covers(ref: TableRef) -> bool:
        entry = entry_for(settings, ref)
        if entry is not None and entry.schedule is not None:
            return False
        own = (timed for timed in others if timed.schedule.enabled and timed.catalog == ref.catalog)
        return not any(timed.covers(ref) for timed in own)

    return ScheduledTables(schedule, catalog, covers)


def _of_api(settings: Settings, schedule: Schedule) -> ScheduledTables | None:
    try:
        catalog = schedule.catalog if schedule.catalog is not None else default_catalog_name(settings)
    except UnknownCatalog:
        return None

    return ScheduledTables(schedule, catalog, _matching(schedule.table))


def _matching(pattern: str) -> Callable[[TableRef], bool]:
    return lambda ref: fnmatchcase(str(ref) if "." in pattern else ref.name, pattern)


def _schedule_id(kind: str, catalog: str, name: str) -> str:
    """Returns a readable id that is the same on every replica and after every restart."""
    digest = hashlib.sha256(f"{kind}\n{catalog}\n{name}".encode()).hexdigest()[:8]
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{catalog}.{name}").strip("-.")[:80]
    return f"{kind}-{readable}-{digest}"
