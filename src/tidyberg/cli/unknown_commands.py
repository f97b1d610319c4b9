"""Hints for command names of other tools, which tidyberg calls differently or does not have."""

import re
from typing import Any

from typer.core import TyperGroup

from tidyberg.errors import BadInput

_COMPACT = "`tidyberg compact TABLE` merges small files, splits large ones and applies deletes."
_SORT = (
    "`tidyberg compact TABLE --sort` sorts by the table's sort order, or by another one: --sort 'a desc, day(ts)'. "
    "--zorder and --hilbert cluster by several columns. `tidyberg layout TABLE` shows what that would change."
)
_EXPIRE = "`tidyberg expire TABLE` expires old snapshots and deletes their files."
_ORPHANS = "`tidyberg orphans TABLE` finds files that no snapshot references, and deletes them."
_TABLES = "`tidyberg tables` lists tables, `tidyberg health TABLE` looks at one."
_JOBS = "`tidyberg history` lists jobs of this machine, `tidyberg jobs` those of a service."
_SERVE = "`tidyberg serve` serves the REST API and runs jobs."
_SCHEDULES = "`tables[].schedule` in tidyberg.yaml and the REST API make schedules; `tidyberg schedules` lists them."
_CHECKS = "`tidyberg audit TABLE` checks past compactions, `tidyberg doctor` the installation."

# Keys are lower case, without dashes and underscores.
_HINTS = {
    **dict.fromkeys(("optimize", "optimise", "rewrite", "rewritedatafiles", "rewritefiles", "merge"), _COMPACT),
    **dict.fromkeys(("binpack", "compaction", "compacttable", "run", "tidy"), _COMPACT),
    **dict.fromkeys(("sort", "sortorder", "zorder", "hilbert", "cluster", "clustering", "liquid"), _SORT),
    **dict.fromkeys(("expiresnapshots", "snapshots", "expiry"), _EXPIRE),
    **dict.fromkeys(("orphan", "removeorphanfiles", "deleteorphanfiles", "clean", "cleanup"), _ORPHANS),
    **dict.fromkeys(("vacuum", "gc", "purge"), f"{_EXPIRE} {_ORPHANS}"),
    **dict.fromkeys(
        ("rewritemanifest", "manifests", "mergemanifests"),
        "`tidyberg rewrite-manifests TABLE` clusters the entries of manifests by partition.",
    ),
    **dict.fromkeys(
        ("rewritepositiondeletefiles", "rewritepositiondeletes", "rewritedeletes", "deletes"),
        "`tidyberg compact TABLE --strategy deletes_only` merges delete files. With `--strategy delete_files` it "
        "rewrites the data files that have deletes.",
    ),
    **dict.fromkeys(("list", "ls", "show", "describe", "info", "inspect", "files", "stats", "analyze"), _TABLES),
    **dict.fromkeys(("status", "job", "log", "logs"), _JOBS),
    **dict.fromkeys(("server", "start", "api", "daemon", "service"), _SERVE),
    **dict.fromkeys(("schedule", "cron"), _SCHEDULES),
    **dict.fromkeys(("keys", "apikey"), "`tidyberg key new --name NAME` makes an API key."),
    **dict.fromkeys(("verify", "check", "validate"), _CHECKS),
    **dict.fromkeys(
        ("rollback", "undo", "revert"),
        "tidyberg does not roll back: a compaction changes no row. Iceberg's rollback_to_snapshot on Spark goes back.",
    ),
    "help": "`tidyberg --help` lists all commands, `tidyberg COMMAND --help` explains one.",
    "version": "`tidyberg --version` prints it.",
    "dryrun": "`tidyberg plan TABLE` says what a compaction would do.",
}


def hint_for(name: str) -> str | None:
    return _HINTS.get(re.sub(r"[-_]", "", name.lower()))


class Commands(TyperGroup):
    """The command group. An unknown command gets a hint, if there is one for its name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and (hint := hint_for(args[0])) is not None:
            raise BadInput(f"There is no command {args[0]!r}.", hint=hint)
        return super().resolve_command(ctx, args)
