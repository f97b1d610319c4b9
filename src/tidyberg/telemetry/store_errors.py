"""Counts failed calls of the job store."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

from tidyberg.errors import BadInput, TidybergError
from tidyberg.record.records import Records

_Port = TypeVar("_Port")


def count_store_errors(records: Records, failed: Callable[[], None]) -> Records:
    """Wraps the records so that `failed` is called when a store call fails, but not for bad input."""
    return replace(
        records,
        store=_counted(records.store, failed),
        queue=_counted(records.queue, failed),
        ledger=_counted(records.ledger, failed),
    )


def _counted(port: _Port, failed: Callable[[], None]) -> _Port:
    return cast(_Port, _Counted(port, failed))


class _Counted:
    def __init__(self, port: object, failed: Callable[[], None]) -> None:
        self._port = port
        self._failed = failed

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found

        @wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return found(*args, **kwargs)
            except TidybergError as error:
                if not isinstance(error, BadInput):
                    self._failed()
                raise

        self.__dict__[name] = call  # cached for the next call
        return call
