"""Implements orphans, with restore, purge and the check of locations."""

from collections.abc import Sequence
from typing import get_args
from uuid import UUID

from tidyberg.app import build_control
from tidyberg.cli.flags import OptionFlags
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.formatting import count, size
from tidyberg.cli.session import Session, standard_error
from tidyberg.cli.show_orphans import (
    locations_json,
    orphan_plan_json,
    orphans_json,
    quarantine_json,
    show_locations,
    show_orphan_plan,
    show_orphans,
    show_quarantine,
)
from tidyberg.cli.table_batch import NOTHING, TableBatch, TableOutcome
from tidyberg.cli.table_names import NamedTables
from tidyberg.control.control import Control
from tidyberg.errors import BadInput
from tidyberg.execute.engine import CancelToken
from tidyberg.model.durations import parse_age, parse_moment
from tidyberg.model.orphans import (
    DAY_MS,
    OrphanOptions,
    OrphanPlan,
    OrphanResult,
    PrefixMismatch,
    QuarantineResult,
)
from tidyberg.model.table import TableRef
from tidyberg.settings.catalogs import resolve_table

_PURGE_AFTER_MS = 30 * DAY_MS


def orphan_options(
    *,
    older_than: str | None,
    newer_than: str | None,
    now: bool,
    quarantine: bool,
    force: str | None,
    locations: Sequence[str],
    prefix_mismatch: str,
    equal_schemes: Sequence[str],
    equal_authorities: Sequence[str],
    dropped_tables: Sequence[str],
    dead_metadata: Sequence[str],
) -> OrphanOptions:
    known = OrphanOptions()
    choices: tuple[PrefixMismatch, ...] = get_args(PrefixMismatch)
    chosen = next((one for one in choices if one == prefix_mismatch), None)
    if chosen is None:
        raise BadInput(f"{prefix_mismatch!r} is not a mode.", hint=f"Choose one of {', '.join(choices)}.")
    return OrphanOptions(
        older_than_ms=known.older_than_ms if older_than is None else parse_age(older_than),
        newer_than_ms=None if newer_than is None else parse_moment(newer_than),
        now=now,
        quarantine=quarantine,
        force=force,
        prefix_mismatch=chosen,
        equal_schemes=(*known.equal_schemes, *map(_group, equal_schemes)),
        equal_authorities=tuple(map(_group, equal_authorities)),
        locations=tuple(locations),
        dropped_tables=tuple(map(_uuid, dropped_tables)),
        dead_metadata=tuple(dead_metadata),
    )


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise BadInput(
            f"{text!r} is not the id of a table.",
            hint="The error that asks for --dropped-table names it, such as 7f985b29-0000-4000-8000-000000000001.",
        ) from None


def _group(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(names) < 2:
        raise BadInput(f"{text!r} names fewer than two that are equal.", hint='Write it like "s3,oss".')
    return names


def remove(
    session: Session,
    names: tuple[str, ...],
    options: OrphanOptions,
    *,
    every: bool,
    dry_run: bool,
    fail_fast: bool,
    job: str | None,
) -> int:
    """Returns the exit code."""
    if job is not None:
        raise BadInput("--job is for restore and purge.", hint="Use `tidyberg orphans restore TABLE --job ID`.")
    console, timezone = standard_error(), session.settings.timezone
    named = NamedTables(names, every=every)

    def plan(control: Control, ref: TableRef, cancel: CancelToken) -> OrphanPlan:
        with watching(console, quiet=session.common.json) as on_event:
            return control.plan_orphans(ref, options, on_event=on_event, cancel=cancel)

    def run(control: Control, ref: TableRef, cancel: CancelToken) -> OrphanResult:
        with watching(console, quiet=session.common.json) as on_event:
            return control.remove_orphans(ref, options, on_event=on_event, cancel=cancel)

    if (table := named.single) is not None:

        def single(cancel: CancelToken) -> OrphanPlan | OrphanResult:
            with build_control(session.settings) as control:
                ref = resolve_table(session.settings, control.catalog(session.common.catalog), table)
                return plan(control, ref, cancel) if dry_run else run(control, ref, cancel)

        found = run_cancellable(single, console)
        if isinstance(found, OrphanPlan):
            session.show(show_orphan_plan(found, timezone), orphan_plan_json(found))
            return NOTHING if found.verdict == "nothing" else 0
        session.show(show_orphans(found, timezone), orphans_json(found))
        return _outcome(found).status or (NOTHING if found.outcome == "nothing" else 0)
    if options.locations or options.dropped_tables or options.dead_metadata:
        raise BadInput("--location, --dropped-table and --dead-metadata need exactly one table.")
    batch = TableBatch(session, named, OptionFlags(), fail_fast=fail_fast)

    def one(control: Control, ref: TableRef, cancel: CancelToken) -> TableOutcome:
        if dry_run:
            planned = plan(control, ref, cancel)
            batch.show(show_orphan_plan(planned, timezone))
            return _planned(planned)
        result = run(control, ref, cancel)
        batch.show(show_orphans(result, timezone))
        return _outcome(result)

    return batch.run(("outcome", "orphans", "waiting", "freed"), one)


def _planned(plan: OrphanPlan) -> TableOutcome:
    cells = (plan.verdict, count(plan.files.files), count(plan.waiting.files), size(plan.files.bytes))
    left = {"nothing": "tidy", "wait": "waiting"}.get(plan.verdict, "")
    return TableOutcome(str(plan.table), orphan_plan_json(plan), cells, left=left)


def _outcome(result: OrphanResult) -> TableOutcome:
    failure = result.failure
    cells = (result.outcome, count(result.files.files), count(result.plan.waiting.files), size(result.files.bytes))
    return TableOutcome(
        str(result.table),
        orphans_json(result),
        cells,
        failure.exit_code if failure is not None else 0,
        reason=failure.message if failure is not None else "",
        left={"nothing": "tidy", "waiting": "waiting"}.get(result.outcome, ""),
    )


def refuse_flags(what: str, unfit: Sequence[str]) -> None:
    """A flag that would be ignored, such as --dry-run, must not let files go."""
    if unfit:
        raise BadInput(
            f"orphans {what} does not have {', '.join(unfit)}. Nothing was changed.",
            hint=f"Use `tidyberg orphans {what} TABLE`, with --job ID for one run"
            + (", or --older-than 30d." if what == "purge" else "."),
        )


def quarantined(session: Session, what: str, names: tuple[str, ...], job: str | None, older_than: str | None) -> int:
    """Restores or purges quarantined files. Returns the exit code."""
    if len(names) != 1:
        raise BadInput(f"orphans {what} needs exactly one table.", hint=f"Use `tidyberg orphans {what} TABLE`.")
    console = standard_error()
    age = _PURGE_AFTER_MS if older_than is None else parse_age(older_than)

    def run(cancel: CancelToken) -> QuarantineResult:
        with build_control(session.settings) as control, watching(console, quiet=session.common.json) as on_event:
            ref = resolve_table(session.settings, control.catalog(session.common.catalog), names[0])
            if what == "restore":
                return control.restore_orphans(ref, job, on_event=on_event, cancel=cancel)
            return control.purge_orphans(ref, age, job, on_event=on_event, cancel=cancel)

    result = run_cancellable(run, console)
    session.show(show_quarantine(result), quarantine_json(result))
    if result.failure is not None:
        return result.failure.exit_code
    return NOTHING if result.outcome == "nothing" else 0


def check_locations(session: Session, names: tuple[str, ...], *, both: bool) -> int:
    """Reports tables that share a location. Returns 2 if there are some."""
    if names or not both:
        raise BadInput(
            "--check-locations looks at a whole catalog.",
            hint="Use `tidyberg orphans --catalog-wide --check-locations`.",
        )

    def run(cancel: CancelToken) -> int:
        with build_control(session.settings) as control:
            found, shared = control.check_locations(session.common.catalog, cancel)
        session.show(show_locations(found, shared), locations_json(found, shared))
        return 2 if shared else 0

    return run_cancellable(run, standard_error())
