"""Settings for notifications about failed and late jobs."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, WithJsonSchema, field_serializer, field_validator

from tidyberg.redact import MASK
from tidyberg.settings.fields import Section

Secret = Annotated[SecretStr, WithJsonSchema({"type": "string"})]
NotifiedEvent = Literal["failed", "given_up", "waiting"]


class Webhook(Section):
    """An address that receives a POST request for each event. The service calls no other address."""

    url: Secret = Field(description="The address. It is treated as a secret, because it often contains one.")
    events: tuple[NotifiedEvent, ...] = Field(
        ("failed", "given_up", "waiting"),
        min_length=1,
        description="failed: a job failed. given_up: its last attempt failed. waiting: it waits too long.",
    )
    format: Literal["json", "slack"] = Field("json", description="The event as JSON, or a message for Slack.")
    secret: Secret | None = Field(
        None, description="The secret that signs each request, with HMAC-SHA256 in X-Tidyberg-Signature."
    )
    tenants: tuple[str, ...] | None = Field(None, description="The tenants whose events are sent. By default all.")
    timeout_seconds: float = Field(10.0, gt=0, description="The time limit for each request.")
    retries: int = Field(
        5, ge=0, description="How many times an event is sent again. The wait starts at 1 s and doubles."
    )

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: SecretStr) -> SecretStr:
        try:
            parts = urlsplit(url.get_secret_value())
            known = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            known = False
        if not known:  # I12: the message does not quote the address
            raise ValueError("write an address such as https://hooks.example.com/…")
        return url

    @field_serializer("url", "secret", when_used="json-unless-none")
    def _mask(self, _: SecretStr) -> Any:
        return MASK  # I12: JSON output is shown to people


class Notifications(Section):
    webhooks: tuple[Webhook, ...] = ()
    waiting_seconds: float = Field(21_600.0, gt=0, description="The time after which a job waits too long.")
