"""Commands for single steps of maintenance, and what they would free. They import their code when they run."""

from pathlib import Path
from typing import Annotated

import typer

from tidyberg.cli.commands_tables import AllTables, DetailedExitCode, FailFast, TableName, TableNames, end_as
from tidyberg.cli.flags import CommonFlags, EngineFlags, takes

OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", help="Age of snapshots to expire, e.g. 5d; the table's setting, or 5 days."),
]
RetainLast = Annotated[
    int | None, typer.Option("--retain-last", min=1, help="Snapshots to keep per branch; the table's setting, or 1.")
]
Snapshots = Annotated[
    list[int] | None, typer.Option("--snapshot", metavar="ID", help="Also expire this snapshot; may be repeated.")
]
CleanMetadata = Annotated[bool, typer.Option("--clean-metadata", help="Also remove unused schemas and specs.")]
Verify = Annotated[
    bool | None,
    typer.Option(
        "--verify/--no-verify",
        help="Look for every file of the retained snapshots afterwards; by default below 64 MB of manifests.",
        show_default=False,
    ),
]
OrphanNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[restore|purge] TABLE...", help="namespace.table, or patterns such as 'sales.*'", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(expire)
    app.command("rewrite-manifests")(rewrite_manifests)
    app.command()(orphans)
    app.command(name="metadata-files")(metadata_files)
    app.command()(storage)
    app.command()(layout)
    app.command()(advise)


@takes(CommonFlags)
def metadata_files(
    table: TableName,
    common: CommonFlags,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, help="From now on, keep so many previous metadata files; commits delete older."),
    ] = None,
    keep_all: Annotated[bool, typer.Option("--keep-all", help="From now on, delete no metadata files.")] = False,
) -> None:
    """Show how many old metadata files a table keeps, or set it."""
    from tidyberg.cli.metadata_files import show_or_set

    show_or_set(common, table, keep, keep_all=keep_all)


@takes(CommonFlags, EngineFlags, without=("engine", "master", "connect", "spark_conf", "verify"))
def expire(
    common: CommonFlags,
    engine: EngineFlags,
    tables: TableNames = None,
    older_than: OlderThan = None,
    retain_last: RetainLast = None,
    snapshot: Snapshots = None,
    clean_metadata: CleanMetadata = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go, change nothing.")] = False,
    verify: Verify = None,
    all_tables: AllTables = False,
    fail_fast: FailFast = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Expire old snapshots, and delete the files that no other snapshot needs."""
    from tidyberg.cli import expire as expiry
    from tidyberg.cli.session import Session
    from tidyberg.cli.table_names import NamedTables
    from tidyberg.model.durations import parse_age
    from tidyberg.model.expiry import ExpireOptions

    options = ExpireOptions(
        older_than_ms=parse_age(older_than) if older_than is not None else None,
        retain_last=retain_last,
        snapshot_ids=tuple(dict.fromkeys(snapshot or ())),
        clean_metadata=clean_metadata,
        verify=verify,
    )
    named = NamedTables(tuple(tables or ()), every=all_tables)
    status = expiry.expire(Session(common, engine), named, options, dry_run=dry_run, fail_fast=fail_fast)
    end_as(status, detailed_exitcode=detailed_exitcode)


@takes(CommonFlags)
def layout(
    table: TableName,
    common: CommonFlags,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="COLUMN", help="A column or a sort order; the table's order by default."),
    ] = None,
    branch: Annotated[str | None, typer.Option("--branch", help="Branch to look at; main by default.")] = None,
    target_file_size: Annotated[
        str | None, typer.Option("--target-file-size", help="Size of files after the sort, e.g. 512MB.")
    ] = None,
    max_overlap_depth: Annotated[
        int | None, typer.Option("--max-overlap-depth", help="The most files that may overlap; 4 by default.")
    ] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Also write a picture.")] = None,
) -> None:
    """Show how files lie along a sort key, and what a sort would change. Changes nothing."""
    from tidyberg.cli import layout as layouts
    from tidyberg.cli.session import Session

    asked = {"branch": branch, "target_file_size": target_file_size, "max_overlap_depth": max_overlap_depth}
    layouts.layout(Session(common), table, by, asked, svg)


@takes(CommonFlags)
def storage(
    table: TableName,
    common: CommonFlags,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Also write a picture.")] = None,
) -> None:
    """Show who holds the bytes of a table, what they cost, and what each command would free. Changes nothing."""
    from tidyberg.cli import storage as storing
    from tidyberg.cli.session import Session

    storing.storage(Session(common), table, svg)


@takes(CommonFlags)
def advise(
    table: TableName,
    common: CommonFlags,
    write_properties: Annotated[
        bool, typer.Option("--write-properties", help="Only the properties of the table, not its writers.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Set the advised properties of the table.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --apply: only say what would change.")] = False,
    window: Annotated[str, typer.Option("--window", help="Age of the commits that count, e.g. 1d.")] = "7d",
) -> None:
    """Advise how to prevent small files: properties of the table, settings of its writers, and what they cost a day."""
    from tidyberg.cli import advise as advising
    from tidyberg.cli.session import Session
    from tidyberg.model.durations import parse_age

    advising.advise(
        Session(common), table, parse_age(window), write_properties=write_properties, apply=apply, dry_run=dry_run
    )


@takes(CommonFlags, EngineFlags, without=("engine", "master", "connect", "spark_conf", "verify"))
def orphans(
    common: CommonFlags,
    engine: EngineFlags,
    tables: OrphanNames = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="Age of orphans, e.g. 7d; 3 days. Of `purge`: 30 days.")
    ] = None,
    newer_than: Annotated[
        str | None, typer.Option("--newer-than", metavar="TIME", help="Keep files written before it, e.g. 2026-01-31.")
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for a second run to see the same orphans.")] = False,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="Move orphans instead; `orphans restore` brings them back.")
    ] = False,
    force: Annotated[
        str | None, typer.Option("--force", metavar="REASON", help="Allow an age below 24 hours; recorded.")
    ] = None,
    location: Annotated[
        list[str] | None,
        typer.Option("--location", help="Look here instead, e.g. in write.data.path; may be repeated."),
    ] = None,
    prefix_mismatch: Annotated[
        str, typer.Option("--prefix-mismatch", help="Referenced with another scheme or host: error, ignore, delete.")
    ] = "error",
    equal_schemes: Annotated[
        list[str] | None, typer.Option("--equal-schemes", metavar="A,B", help="Schemes that mean the same.")
    ] = None,
    equal_authorities: Annotated[
        list[str] | None, typer.Option("--equal-authorities", metavar="A,B", help="Hosts or buckets that are the same.")
    ] = None,
    dropped_table: Annotated[
        list[str] | None,
        typer.Option("--dropped-table", metavar="UUID", help="A dropped table whose files are orphans too."),
    ] = None,
    dead_metadata: Annotated[
        list[str] | None,
        typer.Option("--dead-metadata", metavar="FILE", help="A metadata.json whose commit was abandoned."),
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="ID", help="Restore or purge the files of one run.")
    ] = None,
    catalog_wide: Annotated[bool, typer.Option("--catalog-wide", help="With --check-locations: all tables.")] = False,
    check_locations: Annotated[
        bool, typer.Option("--check-locations", help="Only look for tables that share a location.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go, change nothing.")] = False,
    all_tables: AllTables = False,
    fail_fast: FailFast = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Delete files that no snapshot needs. `orphans restore` and `orphans purge` deal with quarantined files."""
    from tidyberg.cli import orphans as commands
    from tidyberg.cli.session import Session

    names = tuple(tables or ())
    session = Session(common, engine)
    if catalog_wide or check_locations:
        end_as(
            commands.check_locations(session, names, both=catalog_wide and check_locations),
            detailed_exitcode=detailed_exitcode,
        )
        return
    if names[:1] in (("restore",), ("purge",)):
        unfit = {
            "--dry-run": dry_run,
            "--now": now,
            "--quarantine": quarantine,
            "--force": force is not None,
            "--newer-than": newer_than is not None,
            "--location": bool(location),
            "--prefix-mismatch": prefix_mismatch != "error",
            "--equal-schemes": bool(equal_schemes),
            "--equal-authorities": bool(equal_authorities),
            "--dropped-table": bool(dropped_table),
            "--dead-metadata": bool(dead_metadata),
            "--all-tables": all_tables,
            "--older-than": older_than is not None and names[0] == "restore",
        }
        commands.refuse_flags(names[0], [flag for flag, is_given in unfit.items() if is_given])
        status = commands.quarantined(session, names[0], names[1:], job, older_than)
        end_as(status, detailed_exitcode=detailed_exitcode)
        return
    options = commands.orphan_options(
        older_than=older_than,
        newer_than=newer_than,
        now=now,
        quarantine=quarantine,
        force=force,
        locations=location or (),
        prefix_mismatch=prefix_mismatch,
        equal_schemes=equal_schemes or (),
        equal_authorities=equal_authorities or (),
        dropped_tables=dropped_table or (),
        dead_metadata=dead_metadata or (),
    )
    status = commands.remove(session, names, options, every=all_tables, dry_run=dry_run, fail_fast=fail_fast, job=job)
    end_as(status, detailed_exitcode=detailed_exitcode)


@takes(CommonFlags, EngineFlags, without=("engine", "master", "connect", "spark_conf", "verify"))
def rewrite_manifests(
    common: CommonFlags,
    engine: EngineFlags,
    tables: TableNames = None,
    branch: Annotated[str, typer.Option("--branch", help="Branch whose manifests are rewritten.")] = "main",
    spec_id: Annotated[
        int | None, typer.Option("--spec-id", help="Only manifests of this partition spec; all specs by default.")
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        typer.Option("--sort-by", metavar="FIELD", help="Partition field to cluster by first; may be repeated."),
    ] = None,
    target_size: Annotated[
        str | None,
        typer.Option("--target-size", help="Size of manifests, e.g. 8MB; the table's setting, or 8MB."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Rewrite all manifests even if it is not worth it.")] = False,
    ignore_wap_branches: Annotated[
        bool, typer.Option("--ignore-wap-branches", help="Rewrite even if an unpublished branch builds on this one.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do, and whether it pays.")] = False,
    all_tables: AllTables = False,
    fail_fast: FailFast = False,
    detailed_exitcode: DetailedExitCode = False,
) -> None:
    """Cluster the entries of manifests by partition, in manifests of the right size."""
    from tidyberg.cli import rewrite_manifests as manifests
    from tidyberg.cli.session import Session
    from tidyberg.cli.table_names import NamedTables
    from tidyberg.model.manifest_rewrite import ManifestOptions
    from tidyberg.model.sizes import parse_size

    options = ManifestOptions(
        branch=branch,
        spec_id=spec_id,
        sort_by=tuple(dict.fromkeys(sort_by or ())),
        target_bytes=parse_size(target_size) if target_size is not None else None,
        force=force,
        ignore_wap_branches=ignore_wap_branches,
    )
    named = NamedTables(tuple(tables or ()), every=all_tables)
    status = manifests.rewrite_manifests(Session(common, engine), named, options, dry_run=dry_run, fail_fast=fail_fast)
    end_as(status, detailed_exitcode=detailed_exitcode)
