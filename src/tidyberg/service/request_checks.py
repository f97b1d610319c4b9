"""What a request says, checked before anything is asked of a catalog or a store."""

import json
from collections.abc import Mapping
from typing import Any

from pyiceberg.schema import Schema

from tidyberg.errors import BadInput
from tidyberg.execute.tasks.write_settings import write_settings
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.submission import MAX_PRIORITY, MIN_PRIORITY
from tidyberg.planning.bounds import resolve_sizes
from tidyberg.service.requests import SubmitRequest

MOST_OPTION_BYTES = 64 * 1024


def options_as_asked(request: SubmitRequest) -> dict[str, Any]:
    """The options in the caller's words; the strategy is one of them."""
    options = {str(name): value for name, value in request.options.items() if value is not None}
    _check_text(options)
    if request.strategy is not None:
        if "strategy" in options and Strategy.parse(str(options["strategy"])) is not Strategy.parse(request.strategy):
            raise BadInput("The strategy is given twice, and differently.", hint="Leave it out of the options.")
        options["strategy"] = request.strategy
    return options


def check_plan_options(
    options: PlanOptions, schema: Schema | None = None, properties: Mapping[str, str] | None = None
) -> None:
    """What a job would find out only when it runs: sizes that contradict each other, Parquet settings that are none."""
    resolve_sizes(options, properties or {})
    if options.parquet:
        write_settings(schema or Schema(), properties or {}, options.parquet)


def _check_text(options: Mapping[str, Any]) -> None:
    try:
        size = len(json.dumps(options, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError):  # half a surrogate pair too: no store can keep it
        raise BadInput("The options hold something that is not plain JSON.") from None
    if size > MOST_OPTION_BYTES:
        raise BadInput(f"The options have {size} bytes; at most {MOST_OPTION_BYTES} are taken.")


def checked_priority(priority: int) -> int:
    if not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        raise BadInput(f"priority must be from {MIN_PRIORITY} to {MAX_PRIORITY}, not {priority}.")
    return priority
