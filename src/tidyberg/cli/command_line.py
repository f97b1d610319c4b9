"""Builds the command line that a user can type next, with the flags of this run."""

import dataclasses
import shlex
from enum import Enum
from typing import Any, get_type_hints

from typer.models import OptionInfo

from tidyberg.cli.flags import OptionFlags
from tidyberg.cli.session import Session
from tidyberg.redact import MASK, is_secret_key, redact_text


def command_line(session: Session, *words: str, option: OptionFlags | None = None, **changes: Any) -> str:
    """Returns a command that works as printed. `changes` are options to set, or to drop if None."""
    option = dataclasses.replace(option or OptionFlags(), **changes)
    common = dataclasses.replace(session.common, json=False)
    engine = [_without_secrets(word) for word in _words(session.engine_flags)]
    return shlex.join(["tidyberg", *words, *_words(option), *engine, *_words(common)])


def _words(group: Any) -> list[str]:
    """Returns the flags of a group that differ from their defaults."""
    hints = get_type_hints(type(group), include_extras=True)
    words: list[str] = []
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        if value is None or value == field.default:
            continue
        flag, _, opposite = _name(hints[field.name].__metadata__[0]).partition("/")
        if isinstance(value, bool):
            words.append(flag if value else opposite)
            continue
        for each in value if isinstance(value, list | tuple) else (value,):
            words += [flag, str(each.value if isinstance(each, Enum) else each)]
    return words


def _name(option: OptionInfo) -> str:
    """Returns the first long name. In an annotation, Typer stores the first name as the default until first use."""
    names = (option.default, *(option.param_decls or ()))
    return next(name for name in names if isinstance(name, str) and name.startswith("--"))


def _without_secrets(word: str) -> str:
    """I12: masks tokens in Spark Connect addresses and Spark settings, written as `key=value` between semicolons."""
    pieces = []
    for piece in word.split(";"):
        key, is_pair, _ = piece.partition("=")
        pieces.append(f"{key}={MASK}" if is_pair and is_secret_key(key) else piece)
    return redact_text(";".join(pieces))
