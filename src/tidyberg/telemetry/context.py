"""What the present thread or request is about, so that every log line and span of it can say so."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_FIELDS: ContextVar[Mapping[str, str]] = ContextVar("tidyberg_fields", default={})  # noqa: B039 - never changed in place


def current_fields() -> Mapping[str, str]:
    """Such as job_id, run_id, table, tenant, request_id; those that are known, the widest first."""
    return _FIELDS.get()


@contextmanager
def about(**fields: str | None) -> Iterator[None]:
    """Everything within, also in threads that take the context along, is about this."""
    known = {name: value for name, value in fields.items() if value is not None}
    before = _FIELDS.set({**_FIELDS.get(), **known})
    try:
        yield
    finally:
        _FIELDS.reset(before)
