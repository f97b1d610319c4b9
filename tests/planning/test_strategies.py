"""Every strategy is one object, and the rest of planning never asks for its name."""

import ast
from pathlib import Path

import numpy as np
import pytest

from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.planning import decide
from tidyberg.planning.file_sizes import resolve_sizes
from tidyberg.planning.strategies import strategy_for
from tidyberg.planning.strategies.base import RewriteStrategy

PLANNING = Path(decide.__file__).parent
MODULES = sorted(PLANNING.glob("*.py"))


def strategy(name: Strategy, *, force: bool = False) -> RewriteStrategy:
    options = PlanOptions(strategy=name, force=force)
    return strategy_for(options, resolve_sizes(options, {}))


@pytest.mark.parametrize("name", Strategy)
def test_every_strategy_has_an_object_in_a_module_of_its_name(name: Strategy) -> None:
    assert strategy(name).name is name
    assert type(strategy(name)).__module__ == f"tidyberg.planning.strategies.{name.value}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_no_other_module_branches_on_the_name_of_a_strategy(module: Path) -> None:
    members = {
        node.attr
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Strategy"
    }
    assert members <= {"parse"}


def test_only_auto_and_time_series_wait_for_hot_partitions_unless_forced() -> None:
    waits = {name: strategy(name).hot_commits for name in Strategy}
    assert {name: commits for name, commits in waits.items() if commits is not None} == {
        Strategy.AUTO: PlanOptions().hot_commits,
        Strategy.TIME_SERIES: 1,
    }
    assert {strategy(name, force=True).hot_commits for name in Strategy} == {None}


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        (Strategy.FULL, [True, True, False]),
        (Strategy.AUTO, [True, False, False]),
        (Strategy.DELETE_FILES, [True, False, False]),
        (Strategy.SMALL_FILES, [False, False, False]),
        (Strategy.TIME_SERIES, [False, False, False]),
    ],
)
def test_files_with_deletes_are_taken_always_above_the_limit_or_never(name: Strategy, taken: list[bool]) -> None:
    touched, above_limit = np.array([True, True, False]), np.array([True, False, True])
    assert strategy(name).select_for_deletes(touched, above_limit).tolist() == taken
