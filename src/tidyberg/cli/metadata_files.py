"""Implements metadata-files."""

from rich.text import Text

from tidyberg.app import build_control
from tidyberg.cli.as_json import plain
from tidyberg.cli.flags import CommonFlags
from tidyberg.cli.formatting import plural, size
from tidyberg.cli.session import Session
from tidyberg.errors import BadInput
from tidyberg.model.metadata_files import MetadataFiles
from tidyberg.settings.catalogs import resolve_table


def show_or_set(common: CommonFlags, table: str, keep: int | None, *, keep_all: bool) -> None:
    if keep is not None and keep_all:
        raise BadInput("--keep and --keep-all contradict each other.", hint="Give one of them.")
    session = Session(common)
    with build_control(session.settings) as control:
        ref = resolve_table(session.settings, control.catalog(common.catalog), table)
        settings = control.metadata_files(ref)
        found = settings.keep_all() if keep_all else settings.report() if keep is None else settings.keep(keep)
    session.show(Text(in_words(found)), {**plain(found), "table": str(found.table)})


def in_words(found: MetadataFiles) -> str:
    current = "" if found.metadata_bytes is None else f", the current one has {size(found.metadata_bytes)}"
    lines = [f"{found.table}: {plural(found.tracked, 'previous metadata file')} tracked{current}"]
    kept = plural(found.keep, "previous metadata file")
    if found.deletes_old:
        lines.append(f"each commit keeps {kept} and deletes older ones")
    else:
        lines.append(f"each commit tracks {kept}; older ones stay in storage and nothing tracks them")
        lines.append(f"to delete them from now on: tidyberg metadata-files {found.table} --keep {found.keep}")
    if found.has_changed:
        lines.append("changed just now")
    return "\n".join(lines)
