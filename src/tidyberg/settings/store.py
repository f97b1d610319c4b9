"""Where jobs are recorded: a SQLite file, or Redis when several replicas share them."""

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
    """Where jobs are recorded unless the settings name another place."""
    if home := environ.get("TIDYBERG_HOME"):
        return Path(home).expanduser()
    if state := environ.get("XDG_STATE_HOME"):
        return Path(state) / "tidyberg"
    return Path("~/.local/state/tidyberg").expanduser()


class Store(Section):
    path: Path = Field(
        default_factory=lambda: state_directory(os.environ) / "tidyberg.db",
        description="The SQLite file of jobs; under $TIDYBERG_HOME, else $XDG_STATE_HOME/tidyberg, by default.",
    )
    url: Annotated[SecretStr | None, WithJsonSchema({"type": "string"})] = Field(
        None, description="A Redis server to use instead: redis://, rediss:// (TLS) or unix://; else $REDIS_URL."
    )
    prefix: str = Field("tidyberg:", min_length=1, description="What the name of every key in Redis starts with.")
    wait_seconds: float = Field(0.0, ge=0, description="How long to wait for a table that another job holds.")

    @field_validator("path")
    @classmethod
    def _expand_home(cls, path: Path) -> Path:
        return path.expanduser()

    @field_validator("url")
    @classmethod
    def _is_redis(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _is_address(url.get_secret_value()):  # I12: the address is not quoted
            raise ValueError(
                "write it as redis://host:6379/0, rediss://:password@host:6379/0 or unix:///path/to/socket"
            )
        return url

    @field_serializer("url", when_used="json-unless-none")
    def _mask_url(self, url: SecretStr) -> Any:
        return redact_text(url.get_secret_value())  # I12: JSON is for showing


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        place = parts.path if parts.scheme == "unix" else parts.hostname
        return parts.scheme in _SCHEMES and bool(place) and parts.port != 0
    except ValueError:
        return False
