"""Encodes a tenant and its namespace as one namespace of a catalog, so that no two pairs share one.

Lower-case letters and digits stay as they are. Every other character becomes `_` and two hexadecimal digits, so `__`
never occurs inside an encoded name and can separate the two. The result has one level and no upper-case letters,
because Glue and Hive know neither. `Acme` and `acme` stay different tenants there too.
"""

import re

from tidyberg.errors import BadInput

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_ENCODED = re.compile(r"(?:[a-z0-9]|_[0-9a-f]{2})+")
_SEPARATOR = "__"
MOST_CHARACTERS = 255  # of a namespace in Glue and in SQL catalogs


def tenant_namespace(prefix: str, tenant: str, namespace: str) -> str:
    """Returns the namespace of the catalog that holds a tenant's namespace. Raises BadInput for names it refuses."""
    if not _TENANT.fullmatch(tenant):
        raise BadInput(
            f"{tenant[:100]!r} is not a tenant.",
            hint="A tenant has up to 64 ASCII letters, digits, '.', '_', '@' and '-'. The first is a letter or digit.",
        )
    if not _NAMESPACE.fullmatch(namespace):
        raise BadInput(
            f"{namespace[:100]!r} is not a namespace.",
            hint="A namespace has up to 64 ASCII letters, digits, '_' and '-', and one level.",
        )
    encoded = f"{prefix}{_encode(tenant)}{_SEPARATOR}{_encode(namespace)}"
    if len(encoded) > MOST_CHARACTERS:
        raise BadInput(
            f"Tenant {tenant!r} and namespace {namespace!r} together are too long for a catalog.",
            hint="Use shorter names with fewer capital letters and special characters.",
        )
    return encoded


def tenant_of(prefix: str, namespace: tuple[str, ...]) -> str | None:
    """Returns the tenant whose tables a namespace of the catalog holds, or None if it is not one of these."""
    if len(namespace) != 1 or not namespace[0].startswith(prefix):
        return None
    parts = namespace[0].removeprefix(prefix).split(_SEPARATOR)
    if len(parts) != 2 or not all(_ENCODED.fullmatch(part) for part in parts):
        return None
    return _decode(parts[0])


def _encode(name: str) -> str:
    return "".join(character if character in _PLAIN else f"_{ord(character):02x}" for character in name)


def _decode(name: str) -> str:
    return re.sub("_([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name)
