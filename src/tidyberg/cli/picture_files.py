"""Writes the pictures of `layout` and `storage`."""

import os
from pathlib import Path

from tidyberg.errors import BadInput


def check_picture(path: Path | None) -> None:
    """Refuses a path that cannot be written, before the table is read."""
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise BadInput(f"There is no directory {path.absolute().parent}.", hint="Create it, or choose another one.")
    if os.path.isdir(path):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
        raise BadInput(f"{path} is a directory.", hint="Name a file in it.")


def write_picture(path: Path, svg: str) -> None:
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"The picture cannot be written to {path}: {error.strerror or error}.") from None
