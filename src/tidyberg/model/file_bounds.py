"""The bounds of some columns of a table's data files, as manifests have them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ColumnBounds:
    """One column: a value per file, as PyIceberg decodes it, or None if the manifest has no bound."""

    lows: Sequence[Any]
    highs: Sequence[Any]
    may_have_nulls: Flags
    may_have_values: Flags


@dataclass(frozen=True)
class FileBounds:
    paths: Sequence[str]
    partitions: Numbers  # positions in Inventory.partitions
    sizes: Numbers
    records: Numbers
    columns: Mapping[str, ColumnBounds]

    def __len__(self) -> int:
        return len(self.paths)
