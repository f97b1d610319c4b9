"""Implements rewrite-manifests."""

from typing import Any

from rich.console import Group

from tidyberg.app import build_control
from tidyberg.cli.flags import OptionFlags
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.formatting import count
from tidyberg.cli.session import Session, standard_error
from tidyberg.cli.show_manifests import manifest_result_json, planned_json, show_manifest_plan, show_manifest_result
from tidyberg.cli.table_batch import NOTHING, TableBatch, TableOutcome
from tidyberg.cli.table_names import NamedTables
from tidyberg.control.control import Control
from tidyberg.execute.engine import CancelToken
from tidyberg.model.manifest_rewrite import ManifestOptions, ManifestPlan, ManifestRewriteResult
from tidyberg.model.table import TableRef
from tidyberg.settings.catalogs import resolve_table


def rewrite_manifests(
    session: Session, named: NamedTables, options: ManifestOptions, *, dry_run: bool, fail_fast: bool
) -> int:
    """Returns the exit code."""
    console = standard_error()

    def run(control: Control, ref: TableRef, cancel: CancelToken) -> ManifestPlan | ManifestRewriteResult:
        with watching(console, quiet=session.common.json) as on_event:
            if dry_run:
                return control.plan_manifests(ref, options, cancel=cancel)
            return control.rewrite_manifests(ref, options, on_event=on_event, cancel=cancel)

    if (table := named.single) is not None:

        def single(cancel: CancelToken) -> ManifestPlan | ManifestRewriteResult:
            with build_control(session.settings) as control:
                catalog = control.catalog(session.common.catalog)
                return run(control, resolve_table(session.settings, catalog, table), cancel)

        done = run_cancellable(single, console)
        session.show(_shown(done), _json(done))
        return 0 if _plan(done).pays else NOTHING
    batch = TableBatch(session, named, OptionFlags(), fail_fast=fail_fast)

    def one(control: Control, ref: TableRef, cancel: CancelToken) -> TableOutcome:
        done = run(control, ref, cancel)
        batch.show(_shown(done))
        return _outcome(done)

    return batch.run(("outcome", "manifests", "after"), one)


def _outcome(done: ManifestPlan | ManifestRewriteResult) -> TableOutcome:
    plan, document = _plan(done), _json(done)
    cells = (document["outcome"], count(plan.manifests_before), count(plan.manifests_after))
    left = "tidy" if plan.verdict == "tidy" else plan.reason if not plan.pays else ""
    return TableOutcome(
        str(plan.table), document, cells if plan.pays else (document["outcome"],), 0, reason="", left=left
    )


def _plan(done: ManifestPlan | ManifestRewriteResult) -> ManifestPlan:
    return done if isinstance(done, ManifestPlan) else done.plan


def _shown(done: ManifestPlan | ManifestRewriteResult) -> Group:
    return show_manifest_plan(done) if isinstance(done, ManifestPlan) else show_manifest_result(done)


def _json(done: ManifestPlan | ManifestRewriteResult) -> dict[str, Any]:
    return planned_json(done) if isinstance(done, ManifestPlan) else manifest_result_json(done)
