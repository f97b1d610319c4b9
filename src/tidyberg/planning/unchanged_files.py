"""Says which data files no plan can take under some options, whatever else the table holds.

The reader of the manifests only counts such files. On a huge table most files are of this kind.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.model.manifest import CountedFileRule
from tidyberg.model.options import PlanOptions
from tidyberg.model.table import Pinned
from tidyberg.planning.file_sizes import resolve_sizes
from tidyberg.planning.strategies import strategy_for


def unchanged_file_rule(pinned: Pinned, options: PlanOptions) -> CountedFileRule:
    """Returns the rule by size and partition spec. It must agree with `find_candidates`.

    The rule knows nothing about deletes: the reader of the delete manifests decides which files they apply to.
    """
    sizes = resolve_sizes(options, pinned.properties)
    strategy = strategy_for(options, sizes)
    return CountedFileRule(
        at_least=strategy.merge_below,
        at_most=strategy.split_above,
        spec_id=pinned.default_spec_id if options.rewrite_to_current_spec else None,
        small=sizes.small,
        threshold=options.small_file_threshold,
        snapshots=tuple(sorted(pinned.snapshots)),
    )


def sum_by_partition(unchanged: pa.Table, column: str, partitions: int) -> npt.NDArray[np.int64]:
    """Adds up a column of `Inventory.counted_files` for each partition."""
    sums = np.zeros(partitions, np.int64)
    np.add.at(sums, unchanged["partition"].to_numpy(), unchanged[column].to_numpy())
    return sums
