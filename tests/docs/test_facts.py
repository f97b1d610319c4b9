"""Lists and numbers in the documents are those of their source."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.mutants.rules import MUTANTS
from tidyberg.cli.show_audit import RECEIPT_TEXTS
from tidyberg.client import AsyncClient, Client
from tidyberg.model.audit import Receipt

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tidyberg"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def text(path: str) -> str:
    return (ROOT / path).read_text()


def packages() -> set[str]:
    return {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def section(page: str, heading: str) -> str:
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def first_cells(table: str) -> list[str]:
    rows = [line.strip("|").split("|")[0].strip() for line in table.splitlines() if line.startswith("|")]
    return [cell for cell in rows[1:] if not re.fullmatch(r":?-+:?", cell)]


def test_the_readme_stays_short() -> None:
    assert len(text("README.md").splitlines()) < 150


def test_the_readme_shows_what_audit_prints_about_a_receipt() -> None:
    transcript = " ".join(section(text("README.md"), "Check what any compaction did").split())
    assert re.findall(r"· (receipt \w+)", transcript) == [RECEIPT_TEXTS[Receipt.HOLDS]]


def test_contributing_lists_every_package_and_no_other() -> None:
    cells = first_cells(section(text("CONTRIBUTING.md"), "Layout"))
    listed = {cell.strip("`/") for cell in cells if cell.endswith("/`")}
    assert listed == packages()
    assert len(cells) == len(set(cells))


def test_contributing_lists_every_command_of_make_and_no_other() -> None:
    known = set(re.findall(r"^([a-z-]+):.*## ", text("Makefile"), re.MULTILINE))
    listed = re.findall(r"^\| `make ([a-z-]+)` \|", text("CONTRIBUTING.md"), re.MULTILINE)
    assert set(listed) == known
    assert len(listed) == len(known)


def test_correctness_counts_the_mutants() -> None:
    assert re.findall(r"The (\d+) mutants\b", text("docs/correctness.md")) == [str(len(MUTANTS))]


def test_decisions_of_the_architecture_are_numbered_one_after_the_other() -> None:
    numbers = [
        int(number) for number in re.findall(r"^(\d+)\. \*\*", text("docs/internals/decisions.md"), re.MULTILINE)
    ]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_path_in_the_architecture_exists() -> None:
    named = re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_]+)*(?:/|\.py))`", text("docs/architecture.md"))
    assert len(named) > 80
    assert [path for path in named if not (SOURCE / path).exists()] == []


def test_the_architecture_describes_every_package_and_no_other() -> None:
    cells = first_cells(section(text("docs/architecture.md"), "Floors"))
    listed = [name for cell in cells for name in re.findall(r"`(\w+)/`", cell)]
    assert sorted(listed) == sorted(packages())


def test_the_picture_of_the_floors_is_the_contract_of_import_linter() -> None:
    picture = section(text("docs/architecture.md"), "Floors").split("```")[1]
    drawn = [re.split(r"\s{2,}", line[12:].strip())[0] for line in picture.strip("\n").splitlines()]
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    assert [line.split(", ") for line in drawn] == [layer.split(" | ") for layer in contracts[0]["layers"]]


def test_observability_lists_every_alert_and_no_other() -> None:
    rules = yaml.safe_load(text("dashboards/alerts.yaml"))["groups"][0]["rules"]
    listed = re.findall(r"`(Tidyberg\w+)`", section(text("docs/observability.md"), "Metrics"))
    assert sorted(listed) == sorted(rule["alert"] for rule in rules)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_installs_from_a_registry(page: Path) -> None:
    """tidyberg is installed from a checkout or from a wheel."""
    assert re.findall(r"pip install (?:--\S+ )*'?tidyberg(?![\w-]*\.whl)\S*", page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_transcripts_have_the_words_of_the_commands(page: Path) -> None:
    words = " ".join(page.read_text().split())
    assert "receipt holds" not in words
    assert re.findall(r"cools \d\d:\d\d(?! UTC)", words) == []


def test_the_glossary_is_in_order_and_names_packages_that_exist() -> None:
    rows = [line.strip("|").split("|") for line in text("docs/glossary.md").splitlines() if line.startswith("|")][2:]
    words = [row[0].strip() for row in rows]
    assert words == sorted(set(words), key=str.casefold)
    for word, meaning, where in rows:
        assert meaning.strip().endswith("."), word
        assert set(re.findall(r"`(\w+)`", where)) <= packages(), word
        assert "`" in where, word


def test_the_python_page_describes_every_method_of_the_clients() -> None:
    listed = set(re.findall(r"`(\w+)\(", section(text("docs/python-api.md"), "Client of a service")))
    for kind in (Client, AsyncClient):
        methods = {name for name in vars(kind) if not name.startswith("_")}
        assert methods - {"close", "aclose"} <= listed, kind


def test_getting_started_says_that_tidyberg_reads_s3_itself() -> None:
    assert (SOURCE / "storage/s3/client.py").is_file()
    assert "S3 through tidyberg's own client" in " ".join(text("docs/getting-started.md").split())
