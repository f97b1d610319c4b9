"""Changes the footers of files, as odd writers and damage would."""

from collections.abc import Callable
from pathlib import Path

from tidyberg.parquet.thrift import Struct, read_struct, write_struct


def footer_bytes(path: Path) -> bytes:
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    return content[-8 - length : -8]


def edit_footer(path: Path, edit: Callable[[Struct], None]) -> None:
    footer = footer_bytes(path)
    struct, _ = read_struct(footer)
    edit(struct)
    replace_footer(path, write_struct(struct))


def replace_footer(path: Path, renewed: bytes) -> None:
    content = path.read_bytes()
    data = content[: -8 - len(footer_bytes(path))]
    path.write_bytes(data + renewed + len(renewed).to_bytes(4, "little") + b"PAR1")
