"""Implements `tidyberg demo`: creates, plans, compacts and queries one table on this machine."""

import os
import shlex
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.text import Text

from tidyberg.app import build_control
from tidyberg.cli.as_json import print_json, result_json
from tidyberg.cli.doctor import check_java
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.formatting import count, duration, plural
from tidyberg.cli.session import engine_label, standard_error, standard_output
from tidyberg.cli.show_plan import show_plan
from tidyberg.cli.show_result import show_result
from tidyberg.demo.events import CATALOG, TABLE, make_events
from tidyberg.demo.query import QUERY, QueryResult, run_query
from tidyberg.errors import EngineError, StorageError, VerificationFailed
from tidyberg.execute.engine import CancelToken
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.table import TableRef
from tidyberg.record.clock import wall_clock_ms
from tidyberg.settings.load import load_settings
from tidyberg.settings.settings import Settings
from tidyberg.settings.store import state_directory
from tidyberg.testing import Warehouse

REF = TableRef.parse(TABLE, CATALOG)


def run_demo(directory: Path | None, *, as_json: bool) -> None:
    out = Console(quiet=True) if as_json else standard_output()
    directory = (directory or state_directory(os.environ) / "demo").expanduser().absolute()
    with _open_warehouse(directory) as warehouse:
        config = _write_config(warehouse)
        settings = load_settings(config)
        _require_java(settings)

        _step(out, f"A streaming job wrote {TABLE} for a week: many small files, today's still coming in.")
        make_events(warehouse, wall_clock_ms())
        before = run_query(warehouse.catalog)
        out.print(f"{QUERY}\n{count(before.rows)} rows in {duration(before.seconds)}\n", markup=False)

        _step(out, "What is worth doing, and what does it cost? Planning reads metadata only.")
        result = run_cancellable(lambda cancel: _plan_and_compact(settings, out, cancel), standard_error())
        out.print(show_result(result))

        _step(out, "\nThe same query again.")
        after = run_query(warehouse.catalog)
        _require_same_answer(before, after)
        out.print(_compared(before, after))
        _step(out, "\nTry next")
        out.print("\n".join(f"  {command}" for command in _next_commands(config)), markup=False, soft_wrap=True)
    if as_json:
        print_json(_document(directory, config, result, before, after))


def _plan_and_compact(settings: Settings, out: Console, cancel: CancelToken) -> CompactionResult:
    with build_control(settings) as control:
        plan = control.plan(REF, PlanOptions())
        out.print(show_plan(plan, now_ms=wall_clock_ms(), engine=engine_label(settings), next_command=None))
        groups = plural(len(plan.groups), "group")
        _step(out, f"\nRewriting {groups} on Spark, verifying every row, committing beside the live writer.")
        with watching(standard_error()) as on_event:
            return control.apply(plan, verify=VerifyMode.FULL, on_event=on_event, cancel=cancel)


def _open_warehouse(directory: Path) -> Warehouse:
    try:
        return Warehouse(directory, CATALOG)
    except OSError as error:
        raise StorageError(
            f"The demo cannot write to {directory}: {error.strerror or error}.", hint="Choose another --directory."
        ) from None


def _write_config(warehouse: Warehouse) -> Path:
    """Writes settings with which any other command finds the table of the demo, with its own job store."""
    settings = {
        "catalogs": {warehouse.name: warehouse.properties},
        "default_catalog": warehouse.name,
        "store": {"path": str(warehouse.directory / "tidyberg.db")},
    }
    path = warehouse.directory / "tidyberg.yaml"
    path.write_text("# Written by `tidyberg demo`.\n" + yaml.safe_dump(settings, sort_keys=False))
    return path


def _require_java(settings: Settings) -> None:
    check = check_java(settings, os.environ)
    if check.state == "fail":
        raise EngineError(f"Java: {check.found}.", hint=check.cure)


def _require_same_answer(before: QueryResult, after: QueryResult) -> None:
    if (before.rows, before.result) != (after.rows, after.result):
        raise VerificationFailed(
            "The query returns a different result after the compaction.", hint="Please report this."
        )


def _compared(before: QueryResult, after: QueryResult) -> Text:
    return Text.assemble(
        f"{QUERY}\nbefore {duration(before.seconds)}, after {duration(after.seconds)}: ",
        (f"{before.seconds / after.seconds:.1f}x faster", "bold green"),
        f", same answer from the same {count(after.rows)} rows",
    )


def _next_commands(config: Path) -> list[str]:
    chosen = ["--config", str(config)]
    return [
        shlex.join(["tidyberg", "health", TABLE, *chosen]),
        shlex.join(["tidyberg", "plan", TABLE, "--strategy", "full", "--all", *chosen]),
        shlex.join(
            ["tidyberg", "compact", TABLE, "--strategy", "small_files", "--where", "day = current_date", *chosen]
        ),
        shlex.join(["tidyberg", "history", TABLE, *chosen]),
    ]


def _step(out: Console, words: str) -> None:
    out.print(words, style="bold cyan", markup=False)


def _document(
    directory: Path, config: Path, result: CompactionResult, before: QueryResult, after: QueryResult
) -> dict[str, Any]:
    return {
        **result_json(result),
        "directory": str(directory),
        "config": str(config),
        "query": {"sql": QUERY, "rows": after.rows, "seconds_before": before.seconds, "seconds_after": after.seconds},
    }
