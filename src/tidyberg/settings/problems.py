"""Converts validation errors to sentences, and suggests similar names."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from tidyberg.redact import redact_text
from tidyberg.settings.sections import OPTION_ALIASES, Options

_NOT_AN_OBJECT = ("dict_type", "dict_attributes_type", "model_type", "model_attributes_type")
_MOST_CHARACTERS = 200  # of an unknown name


def describe_problem(model: type[BaseModel], problem: ErrorDetails) -> str:
    """Return one sentence for a validation error of `model`. It quotes no values, because they may be secret [I12]."""
    loc = tuple(part for part in problem["loc"] if not _is_union_branch(part))
    if problem["type"] == "extra_forbidden":  # the last part is the user's name for it
        *above, name = problem["loc"]
        loc = tuple(part for part in above if not _is_union_branch(part))
        known = near_name(str(name), known_names(_owner(model, loc)))
        return f"{_dotted((*loc, name))[:_MOST_CHARACTERS]!r} is not a setting{known}"
    key = _dotted(loc)
    if problem["type"] == "missing":
        return f"{key!r} is missing."
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    if problem["type"] == "value_error":
        return redact_text(f"{key + ': ' if key else ''}{message}{'' if message.endswith('?') else '.'}")
    subject = repr(key) if key else "The document"
    if problem["type"] in _NOT_AN_OBJECT:
        return f"{subject} should be an object with keys and values."
    _, is_demand, demand = message.partition(" should ")  # "Input should be …", "String should have …"
    return redact_text(f"{subject} should {demand}." if is_demand else f"{subject}: {message}.")


def near_name(name: str, known: Sequence[str]) -> str:
    """Return a suggestion to append to a sentence about an unknown name."""
    close = get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else "."


def known_names(model: type[BaseModel] | None) -> list[str]:
    if model is None:
        return []
    aliases = list(OPTION_ALIASES) if issubclass(model, Options) else []
    return [*model.model_fields, *aliases]


def _dotted(loc: Sequence[str | int]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _is_union_branch(part: str | int) -> bool:
    """Whether part of a location is the type name of a union member, which is not in the user's path."""
    return isinstance(part, str) and (part in ("str", "is-instance[SecretStr]") or "[" in part)


def _owner(model: type[BaseModel], loc: Sequence[str | int]) -> type[BaseModel] | None:
    """Return the model at a path inside `model`."""
    owner: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, int):
            continue
        field = owner.model_fields.get(str(part)) if owner is not None else None
        if field is not None:
            owner = next(_models_in(field.annotation), owner)
    return owner


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
