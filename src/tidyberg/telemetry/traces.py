"""The interface for traces, and a tracer that records nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

Value = str | int | float | bool


class Span:
    """A span that is not recorded."""

    def set(self, **attributes: Value) -> None:
        """Sets attributes."""

    def rename(self, name: str) -> None:
        """Changes the name."""


_UNTRACED = Span()


class Tracer:
    """A tracer that records nothing. `OpenTelemetryTracer` records spans."""

    @contextmanager
    def span(self, name: str, **attributes: Value) -> Iterator[Span]:  # noqa: ARG002
        """Starts a span around the block and records an error that leaves it."""
        yield _UNTRACED

    @contextmanager
    def serving(self, name: str, traceparent: str | None, **attributes: Value) -> Iterator[Span]:  # noqa: ARG002
        """Starts a span for a request from another process."""
        yield _UNTRACED

    @contextmanager
    def continued(self, traceparent: str | None) -> Iterator[None]:  # noqa: ARG002
        """Continues a trace that another thread or process started."""
        yield

    def add(self, name: str, start_ns: int, end_ns: int, **attributes: Value) -> None:
        """Adds a finished span, measured elsewhere, below the current one."""

    def traceparent(self) -> str | None:
        """Returns the W3C traceparent of the current span, or None."""
        return None

    def close(self) -> None:
        """Sends the remaining spans."""
