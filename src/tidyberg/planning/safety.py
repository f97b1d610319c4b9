"""Which data files must not be rewritten yet: with deletes to apply, not Parquet, or encrypted."""

from collections import Counter
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SUPPORTED_FORMAT_VERSIONS = (1, 2)


class Hazard(IntEnum):
    """Why a file is left out; the order is the order in which reasons are given."""

    NONE = 0
    HAS_DELETES = 1
    FORMAT = 2
    ENCRYPTED = 3

    @property
    def code(self) -> str:
        return self.name.lower().replace("_", "-")


_EXPLANATIONS = {
    Hazard.HAS_DELETES: "with deletes to apply (not supported yet)",
    Hazard.FORMAT: "not in Parquet",
    Hazard.ENCRYPTED: "encrypted",
}


def hazards_of(data_files: pa.Table, deleted: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """One Hazard a file; `deleted` says which files have deletes to apply."""
    hazards = np.where(deleted, Hazard.HAS_DELETES, Hazard.NONE).astype(np.int8)
    formats = data_files.column("format").cast(pa.string())
    hazards[pc.not_equal(formats, "PARQUET").to_numpy()] = Hazard.FORMAT
    hazards[data_files.column("encrypted").to_numpy()] = Hazard.ENCRYPTED
    return hazards


def explain(hazards: npt.NDArray[np.int8]) -> str:
    """In words, how many files are left out and why."""
    counts = Counter(hazard for hazard in hazards.tolist() if hazard)
    return ", ".join(
        f"{count:,} {'file' if count == 1 else 'files'} {_EXPLANATIONS[Hazard(hazard)]}"
        for hazard, count in sorted(counts.items())
    )


def files_with_deletes(data_files: pa.Table, delete_files: pa.Table) -> npt.NDArray[np.bool_]:
    """Which data files some delete file applies to, by the spec's scope and sequence rules.

    A position delete or DV applies where data.seq <= delete.seq, to the file it references or to its partition;
    an equality delete where data.seq < delete.seq, to its partition, or everywhere if its spec is unpartitioned.
    """
    sequence = data_files.column("sequence_number").to_numpy()
    if delete_files.num_rows == 0:
        return np.zeros(len(sequence), dtype=np.bool_)
    partition = data_files.column("partition").to_numpy()
    partitions = 1 + max(partition.max(initial=0), delete_files.column("partition").to_numpy().max())
    position_in_partition = np.full(partitions, -1, dtype=np.int64)
    equality_in_partition = np.full(partitions, -1, dtype=np.int64)
    position_everywhere = equality_everywhere = -1
    position_on_file: dict[str, int] = {}
    names = ("kind", "scope", "partition", "sequence_number", "referenced_data_file")
    for kind, scope, where, latest, path in zip(*(delete_files.column(n).to_pylist() for n in names), strict=True):
        if kind == "equality":
            if scope == "global":
                equality_everywhere = max(equality_everywhere, latest)
            else:
                equality_in_partition[where] = max(equality_in_partition[where], latest)
        elif path is not None:
            position_on_file[path] = max(position_on_file.get(path, -1), latest)
        elif scope == "global":
            position_everywhere = max(position_everywhere, latest)
        else:
            position_in_partition[where] = max(position_in_partition[where], latest)
    deleted: npt.NDArray[np.bool_] = (
        (sequence <= position_in_partition[partition])
        | (sequence <= position_everywhere)
        | (sequence < equality_in_partition[partition])
        | (sequence < equality_everywhere)
    )
    if position_on_file:
        found = pc.index_in(data_files.column("path"), value_set=pa.array(list(position_on_file), pa.string()))
        latest_on_file = np.array([-1, *position_on_file.values()], dtype=np.int64)
        deleted |= sequence <= latest_on_file[pc.fill_null(found, -1).to_numpy() + 1]
    return deleted
