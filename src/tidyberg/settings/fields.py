"""Field types of settings (sizes, strategies, cron lines) and the base class of sections."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from tidyberg.errors import BadInput
from tidyberg.model.cron import parse_cron, time_zone
from tidyberg.model.options import RewriteMode, Strategy
from tidyberg.model.sizes import parse_size
from tidyberg.redact import redact


class Section(BaseModel):
    """A section of the settings. It rejects unknown keys and masks secrets when it is printed."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, value if isinstance(value, BaseModel) else redact(value, name or "")


def _size(value: Any) -> int:
    try:
        return parse_size(value)
    except BadInput as error:
        raise ValueError(str(error)) from None


def _strategy(value: Any) -> Strategy:
    try:
        return Strategy.parse(str(value))
    except BadInput as error:
        raise ValueError(str(error)) from None


def _mode(value: Any) -> RewriteMode:
    try:
        return RewriteMode.parse(str(value))
    except BadInput as error:
        raise ValueError(str(error)) from None


def _cron(value: str) -> str:
    try:
        return parse_cron(value).line
    except BadInput as error:
        raise ValueError(str(error)) from None


def _timezone(value: str) -> str:
    try:
        return time_zone(value).key
    except BadInput as error:
        raise ValueError(str(error)) from None


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtT]?([iI]?[bB])?)\s*$"},
            ],
            "examples": ["512MB", "1GB"],
        }
    ),
]
StrategyName = Annotated[
    Strategy,
    BeforeValidator(_strategy),
    WithJsonSchema(
        {
            "type": "string",
            "enum": sorted({spelling for s in Strategy for spelling in (s.value, s.value.replace("_", "-"))}),
        }
    ),
]
ModeName = Annotated[
    RewriteMode,
    BeforeValidator(_mode),
    WithJsonSchema({"type": "string", "enum": [mode.value for mode in RewriteMode]}),
]
CronLine = Annotated[str, AfterValidator(_cron)]
TimeZoneName = Annotated[str, AfterValidator(_timezone)]
