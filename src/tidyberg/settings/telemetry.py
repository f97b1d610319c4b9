"""What a service tells of itself: metrics, traces and logs."""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from tidyberg.settings.fields import Section


class Telemetry(Section):
    log_format: Literal["console", "json"] = Field("console", description="Lines for people, or JSON for machines.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is worth a line.")
    max_tenant_labels: int = Field(
        50, ge=0, description="Tenants that metrics tell apart, in the order of `tenants:`; the rest is `other`."
    )
    table_labels: bool = Field(
        False, description="Whether metrics of jobs say which table: one time series more for each, so mind the number."
    )
    otlp_endpoint: str | None = Field(
        None,
        description="Where traces are sent, an OpenTelemetry collector's http://host:4318; "
        "$OTEL_EXPORTER_OTLP_ENDPOINT does the same. None: no traces.",
    )
    service_name: str = Field("tidyberg", min_length=1, description="As whom traces are sent.")
    trace_sample_ratio: float = Field(1.0, ge=0, le=1, description="Which part of the traces is kept.")

    @field_validator("otlp_endpoint")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("write an address such as http://collector:4318")
        return value
