"""Which data files no plan under some options can take, whatever else the table holds, and how many there are."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.model.manifest import RestRule
from tidyberg.model.options import PlanOptions
from tidyberg.model.table import Pinned
from tidyberg.planning.bounds import resolve_sizes
from tidyberg.planning.strategies import strategy_for


def rest_rule(pinned: Pinned, options: PlanOptions) -> RestRule:
    """As find_candidates looks at sizes and specs; what deletes reach is for who reads them to say."""
    sizes = resolve_sizes(options, pinned.properties)
    strategy = strategy_for(options, sizes)
    return RestRule(
        at_least=strategy.merge_below,
        at_most=strategy.split_above,
        spec_id=pinned.default_spec_id if options.rewrite_to_current_spec else None,
        small=sizes.small,
        threshold=options.small_file_threshold,
        snapshots=tuple(sorted(pinned.snapshots)),
    )


def counted(resting: pa.Table, column: str, partitions: int) -> npt.NDArray[np.int64]:
    """A column of Inventory.resting, added up for each partition."""
    sums = np.zeros(partitions, np.int64)
    np.add.at(sums, resting["partition"].to_numpy(), resting[column].to_numpy())
    return sums
