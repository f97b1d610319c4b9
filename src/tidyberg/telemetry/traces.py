"""The interface for traces. Without an exporter it does nothing and does not import OpenTelemetry."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tidyberg.errors import ConfigurationError
from tidyberg.settings.telemetry import Telemetry

Value = str | int | float | bool
_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


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


def open_tracer(telemetry: Telemetry, environ: Mapping[str, str] | None = None) -> Tracer:
    environ = os.environ if environ is None else environ
    if telemetry.otlp_endpoint is None and not any(environ.get(name) for name in _VARIABLES):
        return Tracer()
    try:
        from tidyberg.telemetry.otel import exporting_tracer
    except ImportError as error:
        raise ConfigurationError(
            f"Traces are configured (telemetry.otlp_endpoint or ${_VARIABLES[1]}), but OpenTelemetry is not installed "
            f"({error.name or error} is missing).",
            hint="pip install 'tidyberg[otel]', or unset it.",
        ) from None
    return exporting_tracer(telemetry.otlp_endpoint, telemetry.service_name, telemetry.trace_sample_ratio)
