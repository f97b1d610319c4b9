"""Keeps Arrow from importing pandas, which it does at the first value it converts: it might be one of pandas' own.

Only for processes of our own, in which nobody uses pandas: importing it takes a tenth of a second and 30 MB in each.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _PandasBlocker:
    """Finds no pandas, before anyone else looks for it."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)
        return None


def use_arrow_without_pandas() -> None:
    """Let Arrow look for pandas now, once and in vain; others may import it later."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    hidden = _PandasBlocker()
    sys.meta_path.insert(0, hidden)
    try:
        pa.scalar(True)
    finally:
        sys.meta_path.remove(hidden)
