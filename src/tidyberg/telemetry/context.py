"""Context fields of the current thread or request, such as the job id, for its log lines and spans."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_FIELDS: ContextVar[Mapping[str, str]] = ContextVar("tidyberg_fields", default={})  # noqa: B039 - never changed in place


def current_fields() -> Mapping[str, str]:
    """Returns the known fields, such as job_id, run_id, table, tenant and request_id. Outer fields come first."""
    return _FIELDS.get()


@contextmanager
def about(**fields: str | None) -> Iterator[None]:
    """Adds fields to all log lines and spans inside, also in threads that copy the context."""
    known = {name: value for name, value in fields.items() if value is not None}
    before = _FIELDS.set({**_FIELDS.get(), **known})
    try:
        yield
    finally:
        _FIELDS.reset(before)
