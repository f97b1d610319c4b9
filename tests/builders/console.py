"""What the command line prints, as plain text."""

import io

from rich.console import Console, RenderableType


def rendered(shown: RenderableType, width: int = 110) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(shown)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()
