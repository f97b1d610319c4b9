"""Every error says by its type whether a retry can help."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidyberg
from tidyberg.errors import Cancelled, CommitStateUnknown, Conflict, EngineError, Terminal, TidybergError, Transient
from tidyberg.execute.engine import ERRORS, error_of
from tidyberg.failures import FailureKind, KernelFailure

ROOT = Path(tidyberg.__file__).parent


def all_errors() -> list[type[TidybergError]]:
    for module in pkgutil.walk_packages([str(ROOT)], "tidyberg."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return sorted(
        (kind for kind in subclasses(TidybergError) if kind.__module__.startswith("tidyberg.")),
        key=lambda k: k.__name__,
    )


def subclasses(kind: type[TidybergError]) -> Iterator[type[TidybergError]]:
    for below in kind.__subclasses__():
        yield below
        yield from subclasses(below)


def test_every_error_is_either_transient_or_terminal() -> None:
    errors = all_errors()
    assert len(errors) > 40
    undecided = [kind.__name__ for kind in errors if issubclass(kind, Terminal) == issubclass(kind, Transient)]
    assert undecided == []


def test_no_code_raises_the_base_class_of_errors() -> None:
    raised = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "TidybergError"
    ]
    assert raised == []


@pytest.mark.parametrize("kind", [Conflict, CommitStateUnknown, EngineError])
def test_errors_of_races_and_engines_are_transient(kind: type[TidybergError]) -> None:
    assert issubclass(kind, Transient)


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_maps_to_one_error_class(kind: FailureKind) -> None:
    assert type(error_of(KernelFailure(kind, "what happened"))) is ERRORS[kind]


def test_failures_of_storage_are_transient_and_all_others_terminal() -> None:
    transient = {kind for kind, error in ERRORS.items() if issubclass(error, Transient)}
    assert transient == {FailureKind.STORAGE, FailureKind.EXPIRED}
    assert ERRORS[FailureKind.STOPPED] is Cancelled
