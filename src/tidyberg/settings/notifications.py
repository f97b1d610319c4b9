"""Whom a service tells of jobs that went wrong."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, WithJsonSchema, field_serializer, field_validator

from tidyberg.redact import MASK
from tidyberg.settings.fields import Section

Secret = Annotated[SecretStr, WithJsonSchema({"type": "string"})]
NotifiedEvent = Literal["failed", "given_up", "waiting"]


class Webhook(Section):
    """An address that is sent a POST for each event. Nothing but what stands here is ever called."""

    url: Secret = Field(description="Where to; it is treated as a secret, since it often holds one.")
    events: tuple[NotifiedEvent, ...] = Field(
        ("failed", "given_up", "waiting"),
        min_length=1,
        description="failed: a job failed; given_up: after all its attempts; waiting: it waits too long.",
    )
    format: Literal["json", "slack"] = Field("json", description="The event as JSON, or a message for Slack.")
    secret: Secret | None = Field(None, description="Signs each request: HMAC-SHA256 in X-Tidyberg-Signature.")
    tenants: tuple[str, ...] | None = Field(None, description="Only of jobs of these tenants; all when absent.")
    timeout_seconds: float = Field(10.0, gt=0, description="How long it may take to answer.")
    retries: int = Field(5, ge=0, description="How often an event is sent again, with a wait that doubles from 1 s.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: SecretStr) -> SecretStr:
        try:
            parts = urlsplit(url.get_secret_value())
            known = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            known = False
        if not known:  # I12: the address is not quoted
            raise ValueError("write an address such as https://hooks.example.com/…")
        return url

    @field_serializer("url", "secret", when_used="json-unless-none")
    def _mask(self, _: SecretStr) -> Any:
        return MASK  # I12: JSON is for showing


class Notifications(Section):
    webhooks: tuple[Webhook, ...] = ()
    waiting_seconds: float = Field(21_600.0, gt=0, description="A job that waits for so long waits too long.")
