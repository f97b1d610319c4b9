"""The documentation site builds without warnings, and a browser that opens it asks no other host for anything."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = {"src", "srcset", "data", "poster"}  # attributes whose address a browser loads by itself
LOADED_BY_LINK = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
}
OTHER_HOST = re.compile(r"^\s*(?:https?:)?//")


class Resources(HTMLParser):
    """Collects the addresses that a browser loads to show a page; links that a reader clicks are not among them."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.classes.update(values.get("class", "").split())
        self.addresses += [values[name] for name in LOADED & values.keys()]
        if tag == "link" and LOADED_BY_LINK & set(values.get("rel", "").split()):
            self.addresses.append(values.get("href", ""))
        self.addresses += in_styles(values.get("style", ""))


def in_styles(text: str) -> list[str]:
    return re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""", text)


def resources(page: str) -> Resources:
    parser = Resources()
    parser.feed(page)
    parser.addresses += [
        address for style in re.findall(r"<style.*?</style>", page, re.S) for address in in_styles(style)
    ]
    return parser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return directory


def test_every_page_of_the_documentation_is_in_the_site(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page).exists()} == set()


def test_pages_and_styles_load_nothing_from_another_host(site: Path) -> None:
    found = set()
    for page in site.rglob("*.html"):
        found |= {
            (page.name, address) for address in resources(page.read_text()).addresses if OTHER_HOST.match(address)
        }
    for style in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        found |= {(style.name, address) for address in in_styles(style.read_text()) if OTHER_HOST.match(address)}
    assert found == set()


def test_no_page_has_a_mermaid_diagram_because_the_theme_would_load_its_renderer_from_elsewhere(site: Path) -> None:
    assert not [page.name for page in site.rglob("*.html") if "mermaid" in resources(page.read_text()).classes]


def test_lists_and_tables_are_not_shown_as_text(site: Path) -> None:
    """The site needs an empty line between a paragraph and a list or table, which other renderers do not."""
    found = set()
    for page in site.rglob("*.html"):
        prose = re.sub(r"<(pre|script|style)\b.*?</\1>|<code>.*?</code>", "x", page.read_text(), flags=re.DOTALL)
        for paragraph in re.findall(r"<p>(.*?)</p>", prose, re.DOTALL):
            found |= {(page.name, line) for line in re.findall(r"^(?:\||- |\d+\. ).*", paragraph, re.MULTILINE)}
    assert found == set()


def test_the_search_for_resources_finds_them() -> None:
    page = """<link rel="stylesheet" href="https://a/x.css"><link rel="canonical" href="https://b">
    <script src="//c/x.js"></script><a href="https://d">d</a><p style="background: url(https://e/x.png)">
    <style>@import "https://f/x.css";</style><pre class="mermaid">"""
    found = resources(page)
    elsewhere = {address for address in found.addresses if OTHER_HOST.match(address)}
    assert elsewhere == {"https://a/x.css", "//c/x.js", "https://e/x.png", "https://f/x.css"}
    assert "mermaid" in found.classes
