"""Opens the tracer that the settings ask for. OpenTelemetry is imported only if an exporter is configured."""

import os
from collections.abc import Mapping

from tidyberg.errors import ConfigurationError
from tidyberg.settings.telemetry import Telemetry
from tidyberg.telemetry.traces import Tracer

_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


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
