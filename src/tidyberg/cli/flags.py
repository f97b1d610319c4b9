"""Groups of flags that commands share. A command names its groups with `takes`."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tidyberg.errors import BadInput
from tidyberg.model.options import TABLE_ORDER, RewriteMode, Strategy, VerifyMode
from tidyberg.model.sizes import MB

if TYPE_CHECKING:
    from tidyberg.settings.settings import Settings


_SIZE_FLAGS = (
    "target_file_size",
    "min_file_size",
    "max_file_size",
    "small_file_threshold",
    "max_group_size",
    "copy_min_row_group_bytes",
)


class EngineName(StrEnum):
    SPARK = "spark"
    INLINE = "inline"
    AUTO = "auto"


def _strategies() -> list[str]:
    return [strategy.value for strategy in Strategy]


def _modes() -> list[str]:
    return [mode.value for mode in RewriteMode]


def _option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


@dataclass(frozen=True)
class CommonFlags:
    config: Annotated[Path | None, _option("--config", "-c", help="Settings file; ./tidyberg.yaml by default.")] = None
    catalog: Annotated[str | None, _option("--catalog", help="A configured catalog.")] = None
    json: Annotated[bool, _option("--json", help="Print one JSON document instead of text.")] = False


@dataclass(frozen=True)
class OptionFlags:
    """Options of a plan. The settings check the sizes, so that errors read the same everywhere."""

    strategy: Annotated[
        str | None,
        _option("--strategy", "-s", help=", ".join(Strategy) + ".", panel="Plan", autocompletion=_strategies),
    ] = None
    where: Annotated[
        str | None,
        _option("--where", "--partition-filter", help='SQL, e.g. "day >= current_date - 7".', panel="Plan"),
    ] = None
    sort: Annotated[
        bool, _option("--sort", help="Sort rows by the table's sort order, or by the one that follows.", panel="Layout")
    ] = False
    sort_order: Annotated[
        str | None,
        _option("--sort-order", help='Sort by "a desc nulls last, bucket(16, id), day(ts)".', panel="Layout"),
    ] = None
    zorder: Annotated[
        str | None, _option("--zorder", help="Cluster by columns on a z-order curve, e.g. a,b.", panel="Layout")
    ] = None
    hilbert: Annotated[
        str | None, _option("--hilbert", help="Cluster by columns on a Hilbert curve, e.g. a,b.", panel="Layout")
    ] = None
    boundaries: Annotated[
        str | None,
        _option(
            "--boundaries",
            help="With an order: sort only files that straddle these values of its first column, and cut them there.",
            panel="Layout",
        ),
    ] = None
    max_overlap_depth: Annotated[
        int | None,
        _option("--max-overlap-depth", help="Sort again what more files than this overlap; 4.", panel="Layout"),
    ] = None
    branch: Annotated[str | None, _option("--branch", help="Branch to compact; main by default.", panel="Plan")] = None
    force: Annotated[bool, _option("--force", help="Rewrite even if it is not worth it.", panel="Plan")] = False
    rewrite_to_current_spec: Annotated[
        bool,
        _option(
            "--rewrite-to-current-spec",
            help="Rewrite files of older partition specs into the current one.",
            panel="Plan",
        ),
    ] = False
    ignore_wap_branches: Annotated[
        bool,
        _option(
            "--ignore-wap-branches", help="Compact even if an unpublished branch builds on this one.", panel="Plan"
        ),
    ] = False
    mode: Annotated[
        str | None,
        _option(
            "--mode", help="auto, copy (row groups without decoding) or encode.", panel="Plan", autocompletion=_modes
        ),
    ] = None
    copy_min_row_group_bytes: Annotated[
        str | None,
        _option(
            "--copy-min-row-group-bytes", help="Encode row groups smaller than this; 8MB by default.", panel="Plan"
        ),
    ] = None
    target_file_size: Annotated[
        str | None, _option("--target-file-size", help="Size of output files, e.g. 512MB.", panel="Plan")
    ] = None
    min_file_size: Annotated[
        str | None, _option("--min-file-size", help="Rewrite files smaller than this.", panel="Plan")
    ] = None
    max_file_size: Annotated[
        str | None, _option("--max-file-size", help="Split files larger than this.", panel="Plan")
    ] = None
    small_file_threshold: Annotated[
        str | None,
        _option("--small-file-threshold", help="Files below this size are small; 32MB by default.", panel="Plan"),
    ] = None
    min_input_files: Annotated[
        int | None, _option("--min-input-files", help="Minimum number of files to merge; 5 by default.", panel="Plan")
    ] = None
    max_files: Annotated[int | None, _option("--max-files", help="Maximum number of files per job.", panel="Plan")] = (
        None
    )
    max_group_size: Annotated[
        str | None, _option("--max-group-size", help="Maximum bytes per group.", panel="Plan")
    ] = None
    max_cost: Annotated[float | None, _option("--max-cost", help="Maximum dollars per job.", panel="Plan")] = None
    max_parallelism: Annotated[
        int | None, _option("--max-parallelism", help="Number of groups to rewrite at the same time.", panel="Plan")
    ] = None
    commit_every: Annotated[
        int | None, _option("--commit-every", help="Commit after this many groups.", panel="Plan")
    ] = None
    expire_snapshots: Annotated[
        bool | None,
        _option(
            "--expire-snapshots/--no-expire-snapshots", help="Then expire old snapshots of the table.", panel="Plan"
        ),
    ] = None
    snapshot_retention_hours: Annotated[
        float | None,
        _option("--snapshot-retention-hours", help="Age of snapshots to expire; the table's, or 120.", panel="Plan"),
    ] = None
    parquet: Annotated[
        list[str] | None,
        _option("--parquet", help="KEY=VALUE, overrides write.parquet.KEY of the table; repeatable.", panel="Plan"),
    ] = None

    def overrides(self) -> dict[str, Any]:
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for switch in ("force", "rewrite_to_current_spec", "ignore_wap_branches"):
            given[switch] = given[switch] or None
        given["parquet"] = pairs("--parquet", self.parquet) or None
        order = given.pop("sort_order")
        given["sort"] = order if order is not None else TABLE_ORDER if self.sort else None
        for name in _SIZE_FLAGS:
            _refuse_forgotten_unit(name, given[name])
        return given


@dataclass(frozen=True)
class EngineFlags:
    engine: Annotated[EngineName | None, _option("--engine", help="Engine that rewrites files.", panel="Run")] = None
    master: Annotated[str | None, _option("--master", help="Spark master, e.g. local[4].", panel="Run")] = None
    connect: Annotated[str | None, _option("--connect", help="Spark Connect address.", panel="Run")] = None
    spark_conf: Annotated[
        list[str] | None, _option("--spark-conf", help="KEY=VALUE, a Spark setting; repeatable.", panel="Run")
    ] = None
    verify: Annotated[VerifyMode | None, _option("--verify", help="How to verify outputs.", panel="Run")] = None

    wait: Annotated[
        float | None, _option("--wait", help="Seconds to wait while another job holds the table.", panel="Run", min=0)
    ] = None

    def applied_to(self, settings: "Settings") -> "Settings":
        spark: dict[str, Any] = {"conf": {**settings.spark.conf, **pairs("--spark-conf", self.spark_conf)}}
        spark |= {key: value for key in ("master", "connect") if (value := getattr(self, key)) is not None}
        changed: dict[str, Any] = {"spark": settings.spark.model_copy(update=spark)}
        if self.engine is not None:
            changed["engine"] = self.engine.value
        elif self.master or self.connect:
            changed["engine"] = EngineName.SPARK.value
        if self.verify is not None:
            changed["verify"] = self.verify
        if self.wait is not None:
            changed["store"] = settings.store.model_copy(update={"wait_seconds": self.wait})
        return settings.model_copy(update=changed)


@dataclass(frozen=True)
class ServerFlags:
    """The address of a service. The token comes from a file or the environment, because command lines are public."""

    server: Annotated[
        str,
        _option("--server", help="Address of the service; http://127.0.0.1:8080 by default.", envvar="TIDYBERG_SERVER"),
    ] = "http://127.0.0.1:8080"
    token_file: Annotated[
        Path | None, _option("--token-file", help="File with the token; $TIDYBERG_TOKEN by default.")
    ] = None
    json: Annotated[bool, _option("--json", help="Print one JSON document instead of text.")] = False


def _refuse_forgotten_unit(name: str, text: str | None) -> None:
    """A bare number means bytes. Below a megabyte, the user has probably forgotten the unit."""
    if text is not None and (number := text.strip()).isdigit() and 0 < int(number) < MB:
        flag = "--" + name.replace("_", "-")
        raise BadInput(
            f"{flag} {number}: {number} bytes? Write {number}MB.", hint=f"If you mean bytes, write {number}B."
        )


def pairs(flag: str, given: list[str] | None) -> dict[str, str]:
    found = {}
    for text in given or []:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise BadInput(f"{flag} {text} is not of the form KEY=VALUE.")
        found[key.strip()] = value.strip()
    return found


def takes(*groups: type, without: Sequence[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the flags of `groups` to a command, which receives one value per group.

    The value of `CommonFlags` is `common`, of `OptionFlags` is `option`, and so on. Common flags may also come before
    the command. `without` names flags that the command does not have.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        names = {group: group.__name__.removesuffix("Flags").lower() for group in groups}
        hints = get_type_hints(command, include_extras=True)
        own = [p for p in inspect.signature(command).parameters.values() if p.name not in names.values()]
        parameters = [p.replace(annotation=hints[p.name]) for p in own]
        for group in groups:
            parameters += [parameter for parameter in _parameters_of(group) if parameter.name not in without]

        @functools.wraps(command)
        def wrapped(ctx: typer.Context, **given: Any) -> None:
            values = {}
            for group, name in names.items():
                taken = [field.name for field in dataclasses.fields(group) if field.name not in without]
                fields = {name: given.pop(name) for name in taken}
                if isinstance(above := ctx.find_root().obj, CommonFlags):
                    fields = {key: value or getattr(above, key, value) for key, value in fields.items()}
                values[name] = group(**fields)
            command(**given, **values)

        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [context, *parameters]
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
        return wrapped

    return decorate


def _parameters_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in dataclasses.fields(group)
    ]
