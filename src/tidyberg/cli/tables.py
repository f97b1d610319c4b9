"""Implements tables, health, plan and explain."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tidyberg.app import build_control
from tidyberg.cli.as_json import TakeNow, health_json, table_json
from tidyberg.cli.command_line import command_line
from tidyberg.cli.flags import CommonFlags, EngineFlags, OptionFlags
from tidyberg.cli.plan_files import read_plan, write_plan
from tidyberg.cli.session import Session, engine_label
from tidyberg.cli.show_health import show_health, show_tables
from tidyberg.cli.show_plan import show_groups, show_plan
from tidyberg.execute.kernel.without_pandas import use_arrow_without_pandas
from tidyberg.model.maintenance import MaintenancePlan
from tidyberg.model.plan import Plan
from tidyberg.model.table import TableRef
from tidyberg.planning.document import plan_to_json
from tidyberg.record.clock import wall_clock_ms
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options


def _session(common: CommonFlags, engine: EngineFlags | None = None) -> Session:
    """Returns the session of a read-only command. Skips the import of pandas unless a cluster may read manifests."""
    session = Session(common, engine or EngineFlags())
    spark = session.settings.spark
    if session.settings.engine == "inline" or (spark.connect is None and spark.master.startswith("local")):
        use_arrow_without_pandas()
    return session


def list_tables(common: CommonFlags, namespace: str | None) -> None:
    session = _session(common)
    with build_control(session.settings) as control:
        found = control.tables(common.catalog, namespace)
    session.show(show_tables(found, now_ms=wall_clock_ms()), {"tables": [table_json(summary) for summary in found]})


def report_health(common: CommonFlags, table: str, option: OptionFlags, *, show_all: bool) -> None:
    session = _session(common)
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(common.catalog), table)
        report = control.health(ref, plan_options(session.settings, ref, option.overrides()))
    next_command = command_line(session, "plan", str(ref), option=option)
    shown = show_health(report, now_ms=wall_clock_ms(), next_command=next_command, show_all=show_all)
    session.show(shown, health_json(report))


def plan(
    common: CommonFlags, engine: EngineFlags, table: str, option: OptionFlags, *, out: Path | None, show_all: bool
) -> bool:
    """Makes and shows a plan. Returns True if there is nothing to do."""
    session = _session(common, engine)
    made = make_plan(session, table, option)
    if out is not None:
        write_plan(made, out)
    next_command = command_line(session, "compact", str(made.table), option=option)
    if out:
        next_command = command_line(session, "apply", str(out))
    present_plan(session, made, next_command, show_all=show_all, take_now=taking(session, made.table, option))
    return made.is_empty


def explain(common: CommonFlags, plan_file: Path) -> None:
    session = Session(common)
    read = read_plan(plan_file)
    if isinstance(read, MaintenancePlan):
        from tidyberg.cli.show_maintenance import maintenance_plan_json, show_maintenance_plan

        shown = show_maintenance_plan(read, command_line(session, "apply", str(plan_file)))
        session.show(shown, maintenance_plan_json(read))
        return
    present_plan(session, read, command_line(session, "apply", str(plan_file)), show_all=True, with_groups=True)


def make_plan(session: Session, table: str, option: OptionFlags) -> Plan:
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(session.common.catalog), table)
        return control.plan(ref, plan_options(session.settings, ref, option.overrides()))


def taking(session: Session, table: TableRef, option: OptionFlags | None = None) -> TakeNow:
    """Returns a function that builds the command to rewrite files that were left."""

    def command(options: Mapping[str, Any]) -> str:
        return command_line(session, "compact", str(table), option=option, **options)

    return command


def present_plan(
    session: Session,
    plan: Plan,
    next_command: str,
    *,
    show_all: bool = False,
    with_groups: bool = False,
    take_now: TakeNow | None = None,
) -> None:
    shown = show_plan(
        plan,
        now_ms=wall_clock_ms(),
        engine=engine_label(session.settings, inline=plan.better_inline),
        next_command=next_command,
        show_all=show_all,
        take_now=take_now or taking(session, plan.table),
    )
    groups: list[RenderableType] = [Text(), show_groups(plan)] if with_groups and plan.groups else []
    session.show(Group(shown, *groups), json.loads(plan_to_json(plan)))
