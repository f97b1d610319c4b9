"""Checks names and ids in requests before any call to a catalog or a store."""

from collections.abc import Callable

from tidyberg.errors import BadInput
from tidyberg.model.table import TableRef

MOST_CHARACTERS = 255  # per part of a name; catalogs store them in columns and paths
MOST_LEVELS = 16


def is_id(text: str) -> bool:
    """Returns True if the text can be an id. Other texts are not looked up."""
    return 0 < len(text) <= MOST_CHARACTERS and text.isascii() and text.isprintable()


def table_ref(catalog: str, namespace: str | None, table: str, default_namespace: Callable[[], str | None]) -> TableRef:
    """Parses "name" or "namespace.name". If `namespace` is also given, both must agree."""
    if namespace is not None:
        name = table.removeprefix(f"{namespace}.")
        if "." in name:
            raise BadInput(f"{table!r} is not in namespace {namespace!r}.", hint="Give the namespace once.")
        table = f"{namespace}.{name}"
    elif "." not in table:
        _check_part(table, table)
        if (found := default_namespace()) is None:
            raise BadInput(
                f"{table!r} has no namespace.", hint="Write namespace.table, or set default_namespace in the settings."
            )
        table = f"{found}.{table}"
    parts = table.split(".")
    if len(parts) > MOST_LEVELS:
        raise BadInput(f"{table[:100]!r} has more than {MOST_LEVELS} levels.")
    for part in parts:
        _check_part(part, table)
    return TableRef(catalog, tuple(parts[:-1]), parts[-1])


def _check_part(part: str, whole: str) -> None:
    shown = repr(whole[:100])
    if not part or part != part.strip():
        raise BadInput(f"{shown} is not a table name.", hint="Write it as namespace.table.")
    if len(part) > MOST_CHARACTERS:
        raise BadInput(f"{shown} is too long: a part of a name has at most {MOST_CHARACTERS} characters.")
    if not part.isprintable() or any(character in "/\\" for character in part):
        raise BadInput(
            f"{shown} contains characters that a table name cannot have.", hint="Write it as namespace.table."
        )
