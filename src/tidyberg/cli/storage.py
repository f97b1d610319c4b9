"""Implements storage."""

from pathlib import Path

from tidyberg.app import build_control
from tidyberg.cli.foreground import run_cancellable, watching
from tidyberg.cli.picture_files import check_picture, write_picture
from tidyberg.cli.session import Session, standard_error
from tidyberg.cli.show_storage import show_storage, storage_json
from tidyberg.cli.storage_svg import storage_svg
from tidyberg.execute.engine import CancelToken
from tidyberg.model.storage_report import StorageReport
from tidyberg.settings.catalogs import resolve_table
from tidyberg.settings.options import plan_options


def storage(session: Session, table: str, svg: Path | None) -> None:
    check_picture(svg)
    console = standard_error()

    def run(cancel: CancelToken) -> StorageReport:
        with (
            build_control(session.settings) as control,
            watching(console, quiet=session.common.json) as on_event,
        ):
            ref = resolve_table(session.settings, control.catalog(session.common.catalog), table)
            options = plan_options(session.settings, ref, {})
            return control.storage(ref, options, on_event=on_event, cancel=cancel)

    report = run_cancellable(run, console)
    if svg is not None:
        write_picture(svg, storage_svg(report))
    session.show(show_storage(report), storage_json(report))
