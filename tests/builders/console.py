"""What the command line prints, as plain text."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType


def rendered(shown: RenderableType, width: int = 110) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(shown)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]
