"""Planning is pure [I11]. This test checks imports that import-linter cannot see."""

import ast
from pathlib import Path

import pytest

from tidyberg.planning import decide

MODULES = sorted(Path(decide.__file__).parent.rglob("*.py"))
# Types, expressions and evaluators of PyIceberg do no I/O; its catalogs, tables and file access do.
IMPURE = ("pyiceberg.io", "pyiceberg.catalog", "pyiceberg.table", "os", "pathlib", "time", "random", "socket", "io")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_planning_modules_import_neither_storage_nor_clock_nor_random(module: Path) -> None:
    tree = ast.parse(module.read_text())
    imported = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not {name for name in imported if name in IMPURE or name.startswith(tuple(f"{i}." for i in IMPURE))}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not called & {"now", "utcnow", "today", "time_ns"}
