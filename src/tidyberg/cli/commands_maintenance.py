"""Commands that maintain tables beyond compaction: expire, rewrite-manifests. They import their code when they run."""

from typing import Annotated

import typer

from tidyberg.cli.commands_tables import AllTables, DetailedExitCode, FailFast, TableNames, end_as
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


def register(app: typer.Typer) -> None:
    app.command()(expire)
    app.command("rewrite-manifests")(rewrite_manifests)


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
