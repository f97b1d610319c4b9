"""Keeps secrets out of everything that is printed, logged or recorded [I12]."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, SecretStr

MASK = "***"

_SECRET_KEY = re.compile(
    r"token|credential|secret|passw|access[-_.]?key|account[-_.]?key|private[-_.]?key|sas|authorization|signature",
    re.IGNORECASE,
)
# Names that contain one of the words above but hold no secret: they say how to authenticate.
_HARMLESS_KEY = re.compile(
    r"(enabled|supported|uri|url|endpoint|type|provider|ttl|expir\w*)([-_.](ms|in|seconds))?$"
    r"|vended[-_.]credentials|access[-_.]delegation",
    re.IGNORECASE,
)
# Texts may come from attackers, so each pattern below needs time linear in the length of the text.
_USER_INFO = re.compile(r"(?P<user>://[^\s:/@]*+):(?P<password>[^\s/]+)@")
_QUERY = re.compile(r"(?P<name>[?&][^=&?\s]*+)=[^&\s'\"]+")
_SECRET_PARAMETER = re.compile(r"token|secret|passw|sig|key|credential", re.IGNORECASE)
# The credentials of our own callers, which are API keys and signed tokens.
_API_KEY = re.compile(r"\btdb_[A-Za-z0-9_\-]{8,}")
_SIGNED_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_\-]{8,2048}+\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=\-]{6,}")


def is_secret_key(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None and _HARMLESS_KEY.search(key) is None


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask passwords in URIs, tokens in queries and headers, and the given secrets."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, MASK)
    text = _USER_INFO.sub(rf"\g<user>:{MASK}@", text)
    text = _API_KEY.sub(MASK, text)
    text = _SIGNED_TOKEN.sub(MASK, text)
    text = _QUERY.sub(_without_secret, text)
    return _BEARER.sub(rf"\1 {MASK}", text)


def _without_secret(parameter: re.Match[str]) -> str:
    return f"{parameter['name']}={MASK}" if _SECRET_PARAMETER.search(parameter["name"]) else parameter[0]


def redact(value: Any, key: str = "") -> Any:
    """Return a copy of plain data (mappings, sequences, scalars) that is safe to show."""
    if isinstance(value, SecretStr):
        return redact(value.get_secret_value(), key or "secret")
    if isinstance(value, Mapping):
        return {name: redact(item, _key_below(key, str(name))) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [redact(item, key) for item in value]
    if value and not isinstance(value, bool) and is_secret_key(key):
        return MASK
    return redact_text(value) if isinstance(value, str) else value


def seal(value: Any, key: str = "") -> Any:
    """Return the same data with every secret wrapped, so that no repr or dump can leak it."""
    if isinstance(value, Mapping):
        return {name: seal(item, _key_below(key, str(name))) for name, item in value.items()}
    if isinstance(value, list):
        return [seal(item, key) for item in value]
    if isinstance(value, str):
        return SecretStr(value) if value and (is_secret_key(key) or redact_text(value) != value) else value
    if isinstance(value, int | float) and not isinstance(value, bool) and is_secret_key(key):
        return SecretStr(str(value))
    return value


def _key_below(key: str, name: str) -> str:
    """Everything below a secret key is secret, whatever its own name is."""
    return key if is_secret_key(key) else name


def unseal(value: Any) -> Any:
    """Undo `seal`. Use it only to pass properties to a catalog."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {name: unseal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [unseal(item) for item in value]
    return value


def secrets_of(value: Any, key: str = "") -> list[str]:
    """Return every secret in sealed data or settings, to mask it in the messages of libraries."""
    if isinstance(value, SecretStr):
        return [value.get_secret_value()]
    if isinstance(value, BaseModel):
        return [secret for name, item in value for secret in secrets_of(item, name)]
    if isinstance(value, Mapping):
        return [secret for name, item in value.items() for secret in secrets_of(item, _key_below(key, str(name)))]
    if isinstance(value, list | tuple):
        return [secret for item in value for secret in secrets_of(item, key)]
    return [value] if isinstance(value, str) and is_secret_key(key) else []
