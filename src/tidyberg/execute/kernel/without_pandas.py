"""Keeps Arrow from importing pandas, which it does when it converts its first value, in case that is a pandas object.

Importing pandas takes a tenth of a second and 30 MB. Use this only in our own processes, which do not need pandas.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _PandasBlocker:
    """An import finder that hides pandas from the finders after it."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("tidyberg hides pandas from Arrow in this process", name=name)
        return None


def use_arrow_without_pandas() -> None:
    """Makes Arrow look for pandas now, and not find it. Other code may still import pandas later."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    hidden = _PandasBlocker()
    sys.meta_path.insert(0, hidden)
    try:
        pa.scalar(True)
    finally:
        sys.meta_path.remove(hidden)
