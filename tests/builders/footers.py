"""Reads and edits the footers of Parquet files, as odd writers or damage would leave them."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from tests.builders.copy_tasks import given
from tidyberg.model.task import TaskInput
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, MetadataField
from tidyberg.parquet.thrift import I32, Struct, read_struct, write_struct


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


def groups_of(path: str) -> list[Struct]:
    footer, _ = read_struct(footer_bytes(Path(path)))
    found: list[Struct] = footer[FileField.ROW_GROUPS][1].items
    return found


def chunks_of(group: Struct) -> list[Struct]:
    found: list[Struct] = group[GroupField.COLUMNS][1].items
    return found


def other_type(metadata: Struct) -> None:
    metadata[MetadataField.TYPE] = (I32, 0)


def damage(path: Path, how: Callable[[Struct], None], column: int = -1) -> TaskInput:
    """Damages the metadata of one column. The default is the last: the first may be one that is never copied."""

    def edit(footer: Struct) -> None:
        for group in footer[FileField.ROW_GROUPS][1].items:
            how(group[GroupField.COLUMNS][1].items[column][ChunkField.METADATA][1])

    edit_footer(path, edit)
    return given(path, pq.read_metadata(path).num_rows)
