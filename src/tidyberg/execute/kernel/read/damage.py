"""Finds footers over which Arrow ends the whole process, before Arrow sees them.

To read a footer in Python takes as long as to rewrite a tiny file, so files are looked at only when an attempt failed
or died, maybe over one of them: then the next attempt says which it was.
"""

from collections.abc import Iterable

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskInput
from tidyberg.parquet.errors import BadThriftError, CannotCopy, DamagedFooter
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, structs, substruct
from tidyberg.parquet.footer import ENDING, check_for_arrow, footer_length, schema_leaves
from tidyberg.parquet.thrift import read_struct
from tidyberg.storage.file_io import Storage


def refuse_damage(files: Iterable[TaskInput], storage: Storage) -> None:
    for file in files:
        place = storage.place(file.path)
        if file.size < ENDING:
            continue  # Arrow says itself what is wrong with it, as with all other damage
        try:
            length = footer_length(bytes(storage.read_range(place, file.size - ENDING, ENDING)), file.size)
            _look_through(bytes(storage.read_range(place, file.size - ENDING - length, length)))
        except DamagedFooter as damage:
            raise KernelFailure(FailureKind.DAMAGED, f"{file.path} has a damaged footer: {damage}.") from None
        except (CannotCopy, BadThriftError):
            continue


def _look_through(footer: bytes) -> None:
    struct, _ = read_struct(footer)
    leaves = schema_leaves(structs(struct, FileField.SCHEMA, "the schema"))
    for group in structs(struct, FileField.ROW_GROUPS, "the list of row groups"):
        columns = structs(group, GroupField.COLUMNS, "the list of columns")
        for column, leaf in zip(columns, leaves, strict=False):
            name = b".".join(leaf.path).decode(errors="replace")
            metadata = substruct(column, ChunkField.METADATA, f"what describes column {name}")
            if metadata is not None:
                check_for_arrow(metadata, leaf, name)
