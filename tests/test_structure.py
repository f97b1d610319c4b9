"""How the test modules depend on each other: shared helpers live in `tests/builders`, never in a test module."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)


def imported_modules(source: str, importer: str) -> Iterator[str]:
    """Yields the full name of everything that a module imports, inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = importer.split(".")[: -node.level] if node.level else []
            module = ".".join([*package, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_in_a_test_module(name: str) -> bool:
    first, *rest = name.split(".")
    return first == "tests" and any(part.startswith("test_") for part in rest)


IMPORTS = {
    module_name(path): sorted(set(imported_modules(path.read_text(), module_name(path))))
    for path in sorted(TESTS.rglob("*.py"))
}


def test_no_module_imports_from_a_test_module() -> None:
    found = [
        f"{importer}: {name}" for importer, names in IMPORTS.items() for name in names if is_in_a_test_module(name)
    ]
    assert found == [], "move what they share to tests/builders"


def test_every_builder_module_is_used_by_two_modules() -> None:
    builders = {module_name(path) for path in (TESTS / "builders").glob("*.py") if path.name != "__init__.py"}
    users: dict[str, set[str]] = defaultdict(set)
    for importer, names in IMPORTS.items():
        for builder in builders:
            if any(f"{name}.".startswith(f"{builder}.") for name in names):
                users[builder].add(importer)
    assert {builder: users[builder] for builder in builders if len(users[builder]) < 2} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tests.control.test_chunks import leftovers",
        "import tests.control.test_chunks",
        "from tests.control import test_chunks",
        "from .test_chunks import leftovers",
        "from ..commit.test_publish import regional",
        "def late():\n    from tests.control.test_chunks import leftovers",
    ],
)
def test_every_way_to_import_a_test_module_is_noticed(source: str) -> None:
    assert any(map(is_in_a_test_module, imported_modules(source, "tests.control.test_lease")))
