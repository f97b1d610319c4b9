"""Resolves plan options. Later sources win: built-in defaults, settings, the table's entry, the caller."""

from collections.abc import Mapping, Set
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from tidyberg.errors import BadInput, ConfigurationError
from tidyberg.model.options import ORDERS, PlanOptions, Strategy
from tidyberg.model.table import TableRef
from tidyberg.planning.sort_orders import check_order_text
from tidyberg.settings.problems import describe_problem
from tidyberg.settings.sections import Options, Strategies, TableEntry
from tidyberg.settings.settings import Settings


def plan_options(settings: Settings, ref: TableRef, overrides: Mapping[str, Any]) -> PlanOptions:
    """Return the options for one table. Overrides may use any spelling of the contract. None means not given."""
    asked = parse_options({key: value for key, value in overrides.items() if value is not None})
    entry = entry_for(settings, ref)
    of_table = _of_entry(entry) if entry else {}
    of_settings = settings.compaction.given()

    of_settings, of_table, asked = _one_order(of_settings, of_table, asked)
    together = {**of_settings, **of_table, **asked}
    has_order = any(order in together for order in ORDERS)
    strategy = together.get("strategy", Strategy.SORT if has_order else Strategy.AUTO)
    if strategy is Strategy.AUTO:
        strategy = _allowed_by(settings.compaction.strategies)
    # The numbers of a strategy win over those of the section, but not over those of the table or the caller.
    of_strategy = _of_strategy(settings.compaction.strategies, strategy)
    layers = (of_settings, of_strategy, of_table, asked)
    layered = {key: value for layer in layers for key, value in layer.items()}
    parquet = {key: value for layer in layers for key, value in layer.get("parquet", {}).items()}
    limits = {
        "min_target_file_size": settings.limits.min_target_file_size,
        "max_output_files": settings.limits.max_output_files,
    }
    if "snapshot_retention_hours" in asked and not layered.get("expire_snapshots"):
        raise BadInput(
            "snapshot_retention_hours has no effect without expire_snapshots.",
            hint="Also set expire_snapshots to true.",
        )
    options = PlanOptions(**{**layered, **limits, "strategy": strategy, "parquet": parquet})
    check_order_text(options)
    return options


def _one_order(*layers: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the layers, of which the last that names a strategy or an order decides about both.

    Boundaries belong to the order that is known where they are given, so those of the layers before it are left out. A
    sort does not go with a move to the current spec, so an order also wins over a move that a layer before it asks for.
    """
    decides = {"strategy", *ORDERS}
    last = max((number for number, layer in enumerate(layers) if decides & layer.keys()), default=0)
    sorts = layers[last].get("strategy") is Strategy.SORT or any(order in layers[last] for order in ORDERS)
    overruled = decides | {"boundaries"} | ({"rewrite_to_current_spec"} if sorts else set())
    return [_without(layer, overruled) if number < last else layer for number, layer in enumerate(layers)]


def _without(layer: dict[str, Any], names: Set[str]) -> dict[str, Any]:
    return {key: value for key, value in layer.items() if key not in names}


def parse_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check options in the contract's spelling. BadInput names the wrong key and suggests a similar one."""
    try:
        return Options.model_validate(dict(given)).given()
    except ValidationError as error:
        problems = [describe_problem(Options, problem).replace("a setting", "an option") for problem in error.errors()]
        raise BadInput(" ".join(problems)) from None


def entry_for(settings: Settings, ref: TableRef) -> TableEntry | None:
    """Return the first matching entry under `tables:`. A name without a dot matches in any namespace."""
    for entry in settings.tables:
        if entry.catalog not in (None, ref.catalog):
            continue
        candidate = str(ref) if "." in entry.name else ref.name
        if fnmatchcase(candidate, entry.name):
            return entry
    return None


def _of_entry(entry: TableEntry) -> dict[str, Any]:
    own = {} if entry.strategy is None else {"strategy": entry.strategy}
    return {**own, **entry.options.given()}


def _allowed_by(strategies: Strategies) -> Strategy:
    """If one of the two strategies of `auto` is switched off, `auto` means the other one."""
    match strategies.small_files.enabled, strategies.delete_files.enabled:
        case True, True:
            return Strategy.AUTO
        case True, False:
            return Strategy.SMALL_FILES
        case False, True:
            return Strategy.DELETE_FILES
        case _:
            raise ConfigurationError(
                "compaction.strategies switches off every strategy that `auto` may choose.",
                hint="Enable one, or name a strategy.",
            )


def _of_strategy(strategies: Strategies, strategy: Strategy) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if strategy in (Strategy.SMALL_FILES, Strategy.AUTO):
        found["target_file_size"] = strategies.small_files.target_size
    found["small_file_threshold"] = strategies.small_files.threshold
    found["max_delete_ratio"] = strategies.delete_files.fragment_ratio_threshold
    return {key: value for key, value in found.items() if value is not None}
