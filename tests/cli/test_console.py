"""What reaches a terminal: no control characters of names and values, and symbols that its encoding has."""

import io
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from rich.text import Text

from tests.builders.console import Run
from tidyberg.cli.console import TerminalConsole
from tidyberg.cli.failures import print_error
from tidyberg.cli.listing import Listing
from tidyberg.errors import BadInput
from tidyberg.testing import Warehouse

HARMFUL = "\x1b[2J\x9b31m\u202e"
CONTROLS = re.compile("[^\n\x20-\x7e\xa0-\u200d\u2010-\u2027\u2070-\U0010ffff]")


def shown(what: Text | Listing | str, encoding: str = "utf-8", *, terminal: bool = False) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding, errors="replace", newline="")
    console = TerminalConsole(file=file, width=60, highlight=False, force_terminal=terminal)
    console.print(what)
    file.seek(0)
    return file.read()


@pytest.mark.parametrize(
    "arguments",
    [("layout", "--by", "{column}"), ("plan", "--sort", "{column}"), ("advise", "--queries", "{log}")],
)
def test_names_and_queries_have_no_codes_for_terminals(
    run: Run, warehouse: Warehouse, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    column, name = f"id{HARMFUL}", "analytics.x\x1b[31m"
    table = warehouse.catalog.create_table(name, Schema(NestedField(1, column, LongType())))
    for first in range(8):
        table.append(pa.table({column: [first, 100 - first]}))
    log = tmp_path / "log.sql"
    log.write_text(f'select * from "{name.partition(".")[2]}" where "{column}" = 5; select {HARMFUL} from')
    command, *flags = (one.format(column=f'"{column}"', log=log) for one in arguments)
    ran = run(command, name, *flags)
    assert ran.status == 0, ran.err
    assert not CONTROLS.findall(ran.out + ran.err)
    assert "id?[2J" in ran.out
    document = run(command, name, *flags, "--json")
    assert not CONTROLS.findall(document.out)
    assert repr(column)[1:-1] in repr(document.json)


def test_an_error_has_no_codes_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(BadInput(f"no column {HARMFUL}", hint=f"did you mean {HARMFUL}?"))
    assert capsys.readouterr().err == "error: no column ?[2J?31m?\ndid you mean ?[2J?31m??\n"


def test_styles_of_the_console_itself_still_reach_the_terminal() -> None:
    assert shown(Text(f"a{HARMFUL}", style="bold"), terminal=True) == "\x1b[1ma?[2J?31m?\x1b[0m\n"


def test_columns_are_as_wide_as_what_is_shown() -> None:
    table = Listing()
    for heading in ("name", "size"):
        table.add_column(heading, no_wrap=True)
    table.add_row("\x1b\x1b\x1bend", Text("1 GB"))
    assert shown(table).splitlines()[1] == " ???end  1 GB "


def test_names_are_no_markup() -> None:
    table = Listing()
    table.add_column("name")
    table.add_row("[red]x[/blue]")
    assert "[red]x[/blue]" in shown(table)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", "▁▄█ ▏▊ · – → … ✓"), ("latin-1", ".=# -= · - > . +"), ("ascii", ".=# -= - - > . +")],
)
def test_symbols_are_drawn_in_ascii_where_the_encoding_lacks_them(encoding: str, expected: str) -> None:
    text = "▁▄█ ▏▊ · – → … ✓"
    assert shown(text, encoding).rstrip("\n") == expected
