"""Computes the summary of a replace snapshot: what it added and removed, and the new totals of the table."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidyberg.model.plan import InputFile
from tidyberg.model.task import WrittenFile

# Each total, what raises it and what lowers it.
_TOTALS = {
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


def replace_summary(
    files: Sequence[InputFile],
    outputs: Sequence[WrittenFile],
    deletes: pa.Table,
    merged: Sequence[WrittenFile] = (),
    *,
    partitions: int,
) -> dict[str, int]:
    """Returns the summary. `deletes` are the rows of the delete files that the commit removes.

    `merged` are the files of deletes that it adds.
    """
    added = [delete for file in merged for delete in file.deletes]
    vectors = sum(delete.content_offset is not None for delete in added)
    added_records, deleted_records = sum(file.records for file in outputs), sum(file.records for file in files)
    assert added_records <= deleted_records, "a replace adds no rows"
    kinds, records = deletes["kind"].to_pylist(), deletes["records"].to_pylist()
    equality = [count for kind, count in zip(kinds, records, strict=True) if kind == "equality"]
    positions = [count for kind, count in zip(kinds, records, strict=True) if kind != "equality"]
    return {
        "added-data-files": len(outputs),
        "deleted-data-files": len(files),
        "added-records": added_records,
        "deleted-records": deleted_records,
        "added-files-size": sum(file.size for file in outputs) + sum(map(_added_bytes, merged)),
        "removed-files-size": sum(file.size for file in files) + sum(_sizes_in_table(deletes)),
        "changed-partition-count": partitions,
        **_when_positive(
            {
                "added-delete-files": len(added),
                "added-position-delete-files": len(added) - vectors,
                "added-dvs": vectors,
                "added-position-deletes": sum(delete.records for delete in added),
                "removed-delete-files": deletes.num_rows,
                "removed-position-delete-files": kinds.count("position"),
                "removed-dvs": kinds.count("dv"),
                "removed-equality-delete-files": len(equality),
                "removed-position-deletes": sum(positions),
                "removed-equality-deletes": sum(equality),
            }
        ),
    }


def roll_forward(before: Mapping[str, str], changes: Mapping[str, int]) -> dict[str, str]:
    """Returns the changes, and each total that the parent's summary has, as summary properties."""
    totals = {
        name: int(before[name]) + changes.get(added, 0) - changes.get(removed, 0)
        for name, (added, removed) in _TOTALS.items()
        if name in before
    }
    return {name: str(value) for name, value in {**changes, **totals}.items()}


def _sizes_in_table(deletes: pa.Table) -> list[int]:
    """Counts only the bytes of a DV itself, because its Puffin file may hold others."""
    sizes, pieces = deletes["size"].to_pylist(), deletes["content_size"].to_pylist()
    return [size if piece is None else piece for size, piece in zip(sizes, pieces, strict=True)]


def _added_bytes(file: WrittenFile) -> int:
    """Counts what `_sizes_in_table` will count when the deletes are removed."""
    return sum(file.size if delete.content_size is None else delete.content_size for delete in file.deletes)


def _when_positive(numbers: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in numbers.items() if value > 0}
