"""Checks a request before any call to a catalog or a store."""

import json
from collections.abc import Mapping
from typing import Any

from pyiceberg.schema import Schema

from tidyberg.errors import BadInput
from tidyberg.execute.tasks.write_settings import write_settings
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.submission import MAX_PRIORITY, MIN_PRIORITY
from tidyberg.planning.file_sizes import resolve_sizes
from tidyberg.service.requests import SubmitRequest

MOST_OPTION_BYTES = 64 * 1024


def options_as_asked(request: SubmitRequest) -> dict[str, Any]:
    """Returns the options as the caller wrote them, including the strategy."""
    options = {str(name): value for name, value in request.options.items() if value is not None}
    _check_text(options)
    if request.strategy is not None:
        if "strategy" in options and Strategy.parse(str(options["strategy"])) is not Strategy.parse(request.strategy):
            raise BadInput("The request has two different strategies.", hint="Omit it from the options.")
        options["strategy"] = request.strategy
    return options


def refuse_options_of_compactions(request: SubmitRequest) -> None:
    if request.strategy is not None or request.verify is not None:
        raise BadInput("Only a compaction has a strategy and a way to verify outputs.", hint="Omit both.")


def check_plan_options(
    options: PlanOptions, schema: Schema | None = None, properties: Mapping[str, str] | None = None
) -> None:
    """Finds errors that a job would hit only when it runs: contradictory sizes, unknown Parquet settings."""
    resolve_sizes(options, properties or {})
    if options.parquet:
        write_settings(schema or Schema(), properties or {}, options.parquet)


def _check_text(options: Mapping[str, Any]) -> None:
    try:
        size = len(json.dumps(options, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError):  # also half a surrogate pair, which no store can hold
        raise BadInput("The options contain a value that is not plain JSON.") from None
    if size > MOST_OPTION_BYTES:
        raise BadInput(f"The options have {size} bytes; the limit is {MOST_OPTION_BYTES}.")


def checked_priority(priority: int) -> int:
    if not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        raise BadInput(f"priority must be from {MIN_PRIORITY} to {MAX_PRIORITY}, not {priority}.")
    return priority
