"""Settings for metrics, traces and logs of a service."""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from tidyberg.settings.fields import Section


class Telemetry(Section):
    log_format: Literal["console", "json"] = Field("console", description="Lines for people, or JSON for machines.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level that is logged."
    )
    max_tenant_labels: int = Field(
        50,
        ge=0,
        description="How many tenants have a label in metrics, in the order of `tenants:`. The rest is `other`.",
    )
    table_labels: bool = Field(
        False,
        description="Whether job metrics have a label for the table. Each table adds time series, so beware of many.",
    )
    otlp_endpoint: str | None = Field(
        None,
        description="The OpenTelemetry collector for traces, such as http://host:4318. "
        "$OTEL_EXPORTER_OTLP_ENDPOINT does the same. By default no traces are sent.",
    )
    service_name: str = Field("tidyberg", min_length=1, description="The service name in traces.")
    trace_sample_ratio: float = Field(1.0, ge=0, le=1, description="The fraction of traces that is kept.")

    @field_validator("otlp_endpoint")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("write an address such as http://collector:4318")
        return value
