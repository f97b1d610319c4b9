"""Settings for the job store: a SQLite file, or Redis if several replicas share it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, WithJsonSchema, field_serializer, field_validator

from tidyberg.redact import redact_text
from tidyberg.settings.fields import Section

_SCHEMES = ("redis", "rediss", "unix")


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return the default directory of the job store."""
    if home := environ.get("TIDYBERG_HOME"):
        return Path(home).expanduser()
    if state := environ.get("XDG_STATE_HOME"):
        return Path(state) / "tidyberg"
    return Path("~/.local/state/tidyberg").expanduser()


class Store(Section):
    path: Path = Field(
        default_factory=lambda: state_directory(os.environ) / "tidyberg.db",
        description="The SQLite file. By default it is in $TIDYBERG_HOME or $XDG_STATE_HOME/tidyberg.",
    )
    url: Annotated[SecretStr | None, WithJsonSchema({"type": "string"})] = Field(
        None, description="A Redis server to use instead: redis://, rediss:// (TLS) or unix://. Default: $REDIS_URL."
    )
    prefix: str = Field("tidyberg:", min_length=1, description="The prefix of every key in Redis.")
    wait_seconds: float = Field(0.0, ge=0, description="How long to wait for a table that another job holds.")

    @field_validator("path")
    @classmethod
    def _expand_home(cls, path: Path) -> Path:
        return path.expanduser()

    @field_validator("url")
    @classmethod
    def _is_redis(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _is_address(url.get_secret_value()):  # I12: the message does not quote the address
            raise ValueError(
                "write it as redis://host:6379/0, rediss://:password@host:6379/0 or unix:///path/to/socket"
            )
        return url

    @field_serializer("url", when_used="json-unless-none")
    def _mask_url(self, url: SecretStr) -> Any:
        return redact_text(url.get_secret_value())  # I12: JSON output is shown to people


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        place = parts.path if parts.scheme == "unix" else parts.hostname
        return parts.scheme in _SCHEMES and bool(place) and parts.port != 0
    except ValueError:
        return False
