"""Runs a command on several tables, one after the other, and prints a summary."""

import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tidyberg.app import build_control
from tidyberg.cli.as_json import TakeNow, error_json, health_json, print_json, result_json
from tidyberg.cli.command_line import command_line
from tidyberg.cli.failures import print_error, unexpected_error
from tidyberg.cli.flags import OptionFlags
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.formatting import count, dollars, duration, plural, size
from tidyberg.cli.listing import Listing
from tidyberg.cli.session import Session, standard_error, standard_output
from tidyberg.cli.show_health import show_health
from tidyberg.cli.show_result import show_result
from tidyberg.cli.table_names import NamedTables, UnresolvedTable
from tidyberg.cli.tables import present_plan, taking
from tidyberg.control.control import Control
from tidyberg.errors import Cancelled, TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.left import left_alone, outcome_without_commit
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult, HealthReport
from tidyberg.model.table import TableRef
from tidyberg.planning.document import plan_to_json
from tidyberg.record.clock import wall_clock_ms
from tidyberg.redact import redact_text
from tidyberg.settings.options import plan_options

NOTHING = 3
_FROM_GOOD_TO_BAD = (0, 4, 2, 5)  # a conflict may pass, bad input does not, and a failure may have cost money


@dataclass(frozen=True)
class TableOutcome:
    """The result of one table: its JSON document, its line in the summary and its exit code."""

    table: str
    document: dict[str, Any]
    cells: tuple[str, ...]
    status: int = 0
    reason: str = ""  # why it failed
    left: str = ""  # tidy, waiting or refused if nothing was committed


@dataclass(frozen=True)
class TableBatch:
    session: Session
    named: NamedTables
    option: OptionFlags
    fail_fast: bool = False
    show_all: bool = False

    def compact(self) -> int:
        settings, console = self.session.settings, standard_error()

        def one(control: Control, ref: TableRef, cancel: CancelToken) -> TableOutcome:
            options = plan_options(settings, ref, self.option.overrides())
            with watching(console, quiet=self.session.common.json) as on_event:
                result = control.compact(ref, options, verify=settings.verify, on_event=on_event, cancel=cancel)
            take_now = taking(self.session, ref, self.option)
            self.show(show_result(result, take_now))
            return _compacted(result, take_now)

        return self.run(("outcome", "files", "bytes", "took"), one)

    def plan(self) -> int:
        def one(control: Control, ref: TableRef, _: CancelToken) -> TableOutcome:
            plan = control.plan(ref, plan_options(self.session.settings, ref, self.option.overrides()))
            if not self.session.common.json:
                next_command = command_line(self.session, "compact", str(ref), option=self.option)
                take_now = taking(self.session, ref, self.option)
                present_plan(self.session, plan, next_command, show_all=self.show_all, take_now=take_now)
            return _planned(plan)

        return self._end(("health", "rewrite", "read", "price"), self._each(one, CancelToken()))

    def health(self) -> int:
        def one(control: Control, ref: TableRef, _: CancelToken) -> TableOutcome:
            report = control.health(ref, plan_options(self.session.settings, ref, self.option.overrides()))
            next_command = command_line(self.session, "plan", str(ref), option=self.option)
            self.show(show_health(report, now_ms=wall_clock_ms(), next_command=next_command, show_all=self.show_all))
            return _judged(report)

        return self._end(("health", "files", "small", "deletes", "bytes"), self._each(one, CancelToken()))

    def run(self, headings: Sequence[str], one: Callable[[Control, TableRef, CancelToken], TableOutcome]) -> int:
        """Runs `one` for each table, and can be cancelled."""
        return self._end(headings, run_cancellable(lambda cancel: self._each(one, cancel), standard_error()))

    def _each(
        self, one: Callable[[Control, TableRef, CancelToken], TableOutcome], cancel: CancelToken
    ) -> list[TableOutcome]:
        outcomes: list[TableOutcome] = []
        with build_control(self.session.settings) as control:
            tables = self.named.find(self.session.settings, control.catalog(self.session.common.catalog))
            for number, table in enumerate(tables, start=1):
                self._say(f"{table} ({number} of {len(tables)})")
                try:
                    if isinstance(table, UnresolvedTable):
                        raise table.error
                    outcomes.append(one(control, table, cancel))
                except Cancelled:
                    raise  # cancels the whole command
                except Exception as error:  # noqa: BLE001 - continue with the other tables
                    outcomes.append(self._failed(str(table), error))
                if self.fail_fast and outcomes[-1].status:
                    left = plural(len(tables) - number, "table")
                    self._say(f"stopped by --fail-fast; {left} not started" if number < len(tables) else "")
                    break
        return outcomes

    def _failed(self, table: str, error: Exception) -> TableOutcome:
        if os.environ.get("TIDYBERG_DEBUG") == "1":
            sys.stderr.write(redact_text(traceback.format_exc()))
        known = error if isinstance(error, TidybergError) else unexpected_error(error)
        print_error(known, f"{table}: ")
        return TableOutcome(
            table, {"table": table, **error_json(known)}, ("failed",), known.exit_code, reason=known.message
        )

    def _say(self, words: str) -> None:
        if words and not self.session.common.json:
            standard_error().print(words, style="bold", markup=False, soft_wrap=True)

    def show(self, shown: RenderableType) -> None:
        if not self.session.common.json:
            standard_output().print(Group(shown, Text()))

    def _end(self, headings: Sequence[str], outcomes: Sequence[TableOutcome]) -> int:
        if self.session.common.json:
            print_json([outcome.document for outcome in outcomes])
        else:
            standard_output().print(_summary(headings, outcomes))
        return worst(outcomes)


def worst(outcomes: Sequence[TableOutcome]) -> int:
    """Returns the worst exit code, or 3 if no table had anything to do."""
    status = max((outcome.status for outcome in outcomes), key=_badness, default=0)
    if status == 0 and all(outcome.left for outcome in outcomes):
        return NOTHING
    return status


def _badness(status: int) -> int:
    return _FROM_GOOD_TO_BAD.index(status) if status in _FROM_GOOD_TO_BAD else len(_FROM_GOOD_TO_BAD)


def _summary(headings: Sequence[str], outcomes: Sequence[TableOutcome]) -> Group:
    listing = Listing()
    listing.add_column("table", no_wrap=True)
    for heading in headings:
        listing.add_column(heading, no_wrap=True, justify="left" if heading == "outcome" else "right")
    why = any(outcome.reason for outcome in outcomes)
    if why:
        listing.add_column("what", overflow="fold")
    for outcome in outcomes:
        style = "red" if outcome.status else ""
        padded = (*outcome.cells, *("–" for _ in headings[len(outcome.cells) :]))
        cells = (*padded, outcome.reason) if why else padded
        listing.add_row(outcome.table, *(Text(cell, style=style) for cell in cells))
    failed = sum(bool(outcome.status) for outcome in outcomes)
    left = Counter(outcome.left for outcome in outcomes if outcome.left)
    words = [plural(len(outcomes), "table")]
    words += [f"{count(left[kind])} {kind}" for kind in ("tidy", "waiting", "refused") if kind in left]
    words += [f"{count(failed)} failed"] if failed else []
    return Group(listing, Text(), Text(" · ".join(words), style="bold"))


def _compacted(result: CompactionResult, take_now: TakeNow) -> TableOutcome:
    stats, failure = result.stats, result.failure
    files, data = (stats.files_before, stats.files_after), (stats.bytes_before, stats.bytes_after)
    changed = f"{count(files[0])} → {count(files[1])}", f"{size(data[0])} → {size(data[1])}"
    has_changed = result.has_committed or bool(stats.snapshots_expired)
    left = "" if has_changed or failure is not None else result.outcome
    return TableOutcome(
        str(result.job.table),
        result_json(result, take_now),
        (result.outcome, *(("–", "–") if left else changed), duration(stats.compaction_time_ms / 1000)),
        failure.exit_code if failure is not None else 0,
        reason=failure.message if failure is not None else "",
        left=left,
    )


def _planned(plan: Plan) -> TableOutcome:
    estimate = plan.estimate
    rewrite = f"{count(estimate.input_files)} → {count(estimate.output_files)}"
    price = (rewrite, size(estimate.bytes_read), dollars(estimate.dollars))
    left = outcome_without_commit(left_alone(plan)) if plan.is_empty else ""
    cells = (f"{plan.health}/100", *((left, "–", "–") if left else price))
    return TableOutcome(str(plan.table), json.loads(plan_to_json(plan)), cells, left=left)


def _judged(report: HealthReport) -> TableOutcome:
    cells = (
        f"{report.health.score}/100", count(report.files), count(report.small_files),
        count(report.delete_files) if report.delete_files else "–", size(report.bytes),
    )  # fmt: skip
    return TableOutcome(str(report.table), health_json(report), cells)
