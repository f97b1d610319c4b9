"""Traces as the rest of tidyberg sees them. Without an exporter nothing is traced nor is OpenTelemetry imported."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tidyberg.errors import ConfigurationError
from tidyberg.settings.telemetry import Telemetry

Value = str | int | float | bool
_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Span:
    """One that is not traced."""

    def set(self, **attributes: Value) -> None:
        """Say more of it, once more is known."""

    def rename(self, name: str) -> None:
        """Call it better, once more is known."""


_UNTRACED = Span()


class Tracer:
    """Traces nothing; the one that does is in `otel`."""

    @contextmanager
    def span(self, name: str, **attributes: Value) -> Iterator[Span]:  # noqa: ARG002
        """What happens within, in this thread or request; an error that leaves it is recorded."""
        yield _UNTRACED

    @contextmanager
    def serving(self, name: str, traceparent: str | None, **attributes: Value) -> Iterator[Span]:  # noqa: ARG002
        """A request that someone else sent."""
        yield _UNTRACED

    @contextmanager
    def continued(self, traceparent: str | None) -> Iterator[None]:  # noqa: ARG002
        """Spans within belong to that trace, which another thread or process began."""
        yield

    def add(self, name: str, start_ns: int, end_ns: int, **attributes: Value) -> None:
        """A span that is over, of something that happened elsewhere, below the present one."""

    def traceparent(self) -> str | None:
        """The present span in W3C's words, to be continued; None where nothing is traced."""
        return None

    def close(self) -> None:
        """Send what is not sent yet."""


def open_tracer(telemetry: Telemetry, environ: Mapping[str, str] | None = None) -> Tracer:
    environ = os.environ if environ is None else environ
    if telemetry.otlp_endpoint is None and not any(environ.get(name) for name in _VARIABLES):
        return Tracer()
    try:
        from tidyberg.telemetry.otel import exporting_tracer
    except ImportError as error:
        raise ConfigurationError(
            f"Traces are asked for (telemetry.otlp_endpoint or ${_VARIABLES[1]}), but OpenTelemetry is not installed "
            f"({error.name or error} is missing).",
            hint="pip install 'tidyberg[otel]', or unset it.",
        ) from None
    return exporting_tracer(telemetry.otlp_endpoint, telemetry.service_name, telemetry.trace_sample_ratio)
