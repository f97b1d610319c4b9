"""Which data files must not be rewritten: not Parquet, encrypted, or with deletes that cannot be read."""

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
    DELETE_FORMAT = 1
    FORMAT = 2
    ENCRYPTED = 3

    @property
    def code(self) -> str:
        return self.name.lower().replace("_", "-")


_EXPLANATIONS = {
    Hazard.DELETE_FORMAT: "with deletes not in Parquet",
    Hazard.FORMAT: "not in Parquet",
    Hazard.ENCRYPTED: "encrypted",
}


def hazards_of(data_files: pa.Table, unreadable_deletes: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """One Hazard a file; `unreadable_deletes` says to which files deletes apply that cannot be read."""
    hazards = np.where(unreadable_deletes, Hazard.DELETE_FORMAT, Hazard.NONE).astype(np.int8)
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
