"""The strategies by name. To add one, write a module here and enter its class below."""

from collections.abc import Mapping

from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.planning.file_sizes import FileSizes
from tidyberg.planning.strategies.auto import AutoStrategy
from tidyberg.planning.strategies.base import RewriteStrategy
from tidyberg.planning.strategies.delete_files import DeleteFilesStrategy
from tidyberg.planning.strategies.deletes_only import DeletesOnlyStrategy
from tidyberg.planning.strategies.full import FullStrategy
from tidyberg.planning.strategies.small_files import SmallFilesStrategy
from tidyberg.planning.strategies.sort import SortStrategy
from tidyberg.planning.strategies.time_series import TimeSeriesStrategy

_STRATEGIES: Mapping[Strategy, type[RewriteStrategy]] = {
    strategy.name: strategy
    for strategy in (
        AutoStrategy,
        DeleteFilesStrategy,
        DeletesOnlyStrategy,
        FullStrategy,
        SmallFilesStrategy,
        SortStrategy,
        TimeSeriesStrategy,
    )
}


def strategy_type(options: PlanOptions) -> type[RewriteStrategy]:
    return _STRATEGIES[options.strategy]


def strategy_for(options: PlanOptions, sizes: FileSizes) -> RewriteStrategy:
    return strategy_type(options)(options, sizes)
