"""The layout of the code: names are unique, no import cycles, packages say what they are for, shared test builders."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "tidyberg"


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


@cache
def imports_of_tests() -> dict[str, list[str]]:
    """The modules that each module of the tests imports. Every process collects this file, and only one needs them."""
    return {
        module_name(path): sorted(set(imported_modules(path.read_text(), module_name(path))))
        for path in sorted(TESTS.rglob("*.py"))
    }


def test_class_names_are_unique_in_the_whole_source() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def source_imports() -> dict[str, set[str]]:
    """Each module of tidyberg, and the modules of tidyberg that it imports, inside functions too."""
    paths = {module_name(path).removeprefix("src."): path for path in SOURCE.rglob("*.py")}
    modules = {name.removesuffix(".__init__") for name in paths}
    found = {}
    for name, path in paths.items():
        # An import names a module, or something in a module.
        named = {
            each if each in modules else each.rpartition(".")[0] for each in imported_modules(path.read_text(), name)
        }
        own = name.removesuffix(".__init__")
        found[own] = (named & modules) - {own}
    return found


def cycle_in(imports: dict[str, set[str]]) -> set[str]:
    """Returns the names that are part of a cycle, or lie between two cycles."""
    left = {name: set(targets) for name, targets in imports.items()}
    while True:
        imported = set().union(*left.values())
        ends = {name for name, targets in left.items() if not targets or name not in imported}
        if not ends:
            return set(left)
        left = {name: targets - ends for name, targets in left.items() if name not in ends}


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    imports = source_imports()
    assert sum(map(len, imports.values())) > 1000
    assert cycle_in(imports) == set()


def test_packages_inside_a_package_do_not_import_each_other_in_a_circle() -> None:
    imports = source_imports()
    for package in (path.parent for path in SOURCE.rglob("__init__.py")):
        prefix = f"{module_name(package).removeprefix('src.')}."
        between: dict[str, set[str]] = defaultdict(set)
        for importer, names in imports.items():
            for name in names:
                if importer.startswith(prefix) and name.startswith(prefix):
                    one, other = (each.removeprefix(prefix).partition(".")[0] for each in (importer, name))
                    between[one] |= {other} - {one}
                    between[other] |= set()
        assert cycle_in(between) == set(), prefix


def test_a_cycle_is_noticed() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}) == {"b", "c"}


def test_every_package_says_what_it_is_for() -> None:
    packages = list(SOURCE.rglob("__init__.py"))
    assert len(packages) > 25
    assert [str(path) for path in packages if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_no_module_imports_from_a_test_module() -> None:
    found = [
        f"{importer}: {name}"
        for importer, names in imports_of_tests().items()
        for name in names
        if is_in_a_test_module(name)
    ]
    assert found == [], "move what they share to tests/builders"


def test_every_builder_module_is_used_by_two_modules() -> None:
    builders = {module_name(path) for path in (TESTS / "builders").glob("*.py") if path.name != "__init__.py"}
    users: dict[str, set[str]] = defaultdict(set)
    for importer, names in imports_of_tests().items():
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
