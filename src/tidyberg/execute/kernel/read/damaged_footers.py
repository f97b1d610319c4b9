"""Finds damaged footers that would crash Arrow, and with it the whole process.

Parsing a footer in Python takes as long as rewriting a small file. So a task checks its files only after an attempt
failed or died: the crash may have come from one of them, and the next attempt names the file.
"""

from collections.abc import Iterable

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskInput
from tidyberg.parquet.errors import BadThriftError, CannotCopy, DamagedFooter
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, structs, substruct
from tidyberg.parquet.footer import ENDING, check_for_arrow, footer_length, schema_leaves
from tidyberg.parquet.thrift import read_struct
from tidyberg.storage.file_io import Storage


def refuse_damaged_footers(files: Iterable[TaskInput], storage: Storage) -> None:
    """Raises KernelFailure for the first file whose footer Arrow must not see."""
    for file in files:
        place = storage.place(file.path)
        if file.size < ENDING:
            continue  # Arrow reports this safely, like all other damage
        try:
            length = footer_length(bytes(storage.read_range(place, file.size - ENDING, ENDING)), file.size)
            _check_footer(bytes(storage.read_range(place, file.size - ENDING - length, length)))
        except DamagedFooter as damage:
            raise KernelFailure(FailureKind.DAMAGED, f"{file.path} has a damaged footer: {damage}.") from None
        except (CannotCopy, BadThriftError):
            continue


def _check_footer(footer: bytes) -> None:
    struct, _ = read_struct(footer)
    leaves = schema_leaves(structs(struct, FileField.SCHEMA, "the schema"))
    for group in structs(struct, FileField.ROW_GROUPS, "the list of row groups"):
        columns = structs(group, GroupField.COLUMNS, "the list of columns")
        for column, leaf in zip(columns, leaves, strict=False):
            name = b".".join(leaf.path).decode(errors="replace")
            metadata = substruct(column, ChunkField.METADATA, f"what describes column {name}")
            if metadata is not None:
                check_for_arrow(metadata, leaf, name)
