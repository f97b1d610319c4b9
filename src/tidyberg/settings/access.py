"""Who may use a service: API keys, an identity provider, tenants, and what keeps a service from listening openly."""

import ipaddress
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tidyberg.model.principal import ALL_TENANTS, Role
from tidyberg.model.submission import DEFAULT_TENANT
from tidyberg.model.table import TableRef
from tidyberg.settings.fields import Section

KEY_PREFIX = "tdb_"
_KEY_BYTES = 32
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
# Names appear in records as who did it; "oidc:…", "schedule:…" and the like must not be imitated by a key.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_RESERVED_NAMES = {"local", "anonymous", "auto"}
# Only signatures that are checked with a public key. With HS*, whoever can read the public keys could sign.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def new_key() -> str:
    """A key for one caller: 256 random bits."""
    return KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def hash_key(key: str) -> str:
    # A slow, salted hash protects what people choose and attackers can guess. Nobody guesses 256 random bits, so that
    # one round of SHA-256 keeps a key as safe, and checking it costs a request nothing.
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def _key_hash(value: Any) -> Any:
    """I12: the value is never quoted, for it may be a key that someone pasted here."""
    if not isinstance(value, str) or not _HASH.fullmatch(value.strip().lower()):
        raise ValueError(
            "this must be the hash of a key, as `tidyberg key new` prints it (sha256: and 64 hex digits), "
            "never the key itself; a key that was written here should be replaced by a new one"
        )
    return value.strip().lower()


def _name(value: str) -> str:
    if not _NAME.fullmatch(value) or value in _RESERVED_NAMES:
        raise ValueError("a name has letters, digits, '.', '_', '@' and '-', and is not local, anonymous or auto")
    return value


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def check_address(value: str) -> str:
    """Keys that came over plain HTTP could be anyone's; on this machine there is no wire to listen on."""
    parts = urlsplit(value)
    if parts.username or parts.password:
        raise ValueError("an address with a password is refused")
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise ValueError("an address begins with https://")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("an address on another machine begins with https://")
    return value


Name = Annotated[str, AfterValidator(_name)]
SafeAddress = Annotated[str, AfterValidator(check_address)]


class ApiKey(Section):
    name: Name = Field(description="Who has the key; told in jobs and in the audit log.")
    hash: Annotated[str, BeforeValidator(_key_hash)] = Field(description="Of the key; `tidyberg key new` prints it.")
    role: Role = Field(Role.VIEWER, description="viewer looks, operator submits and schedules, admin does all.")
    tenant: str | None = Field(None, description="For whom; `*` for all. May be left out where there are no tenants.")
    expires: Annotated[datetime, AfterValidator(_in_utc)] | None = Field(None, description="Not valid from then on.")


class Oidc(Section):
    """An identity provider whose signed tokens (JWT) are accepted."""

    issuer: SafeAddress = Field(description="What tokens say they are from, exactly.")
    audience: str = Field(min_length=1, description="What tokens must be meant for.")
    jwks_uri: SafeAddress | None = Field(None, description="Its public keys; else what the issuer tells of itself.")
    algorithms: tuple[Algorithm, ...] = Field(("RS256", "ES256"), min_length=1, description="Signatures to accept.")
    role_claim: str = Field("roles", min_length=1, description="Which claim tells roles; `a.b` looks inside `a`.")
    roles: dict[str, Role] = Field(
        default_factory=lambda: {role.value: role for role in Role},
        min_length=1,
        description="The role that each value of the claim gives; the highest counts.",
    )
    tenant_claim: str | None = Field(None, min_length=1, description="Which claim tells the tenant.")
    name_claim: str = Field("sub", min_length=1, description="Which claim tells who it is.")
    leeway_seconds: float = Field(30.0, ge=0, le=300, description="By how much clocks may differ.")
    timeout_seconds: float = Field(5.0, gt=0, description="How long the provider may take to answer.")
    cache_seconds: float = Field(600.0, gt=0, description="How long its keys are used before they are asked for again.")
    refresh_seconds: float = Field(30.0, gt=0, description="It is not asked more often than that.")


class AccessSettings(Section):
    api_keys: tuple[ApiKey, ...] = Field((), description="Who may come with a key.")
    oidc: Oidc | None = Field(None, description="Who may come with a token of an identity provider.")
    anonymous_role: Literal["viewer", "operator"] | None = Field(
        None, description="What callers without key or token may do, where others need one; nothing by default."
    )
    open_metrics: bool | None = Field(
        None, description="Whether metrics need no key; by default only where nothing needs one."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Host names that requests may be for; by default those of this machine, or any with keys."
    )
    cors_origins: tuple[str, ...] = Field((), description="Web pages of other origins that may call the API.")

    @model_validator(mode="after")
    def _keys_differ(self) -> "AccessSettings":
        for field in ("name", "hash"):
            given = [getattr(key, field) for key in self.api_keys]
            if len(set(given)) < len(given):
                raise ValueError(f"two API keys have the same {field}")
        if "*" in self.cors_origins:
            raise ValueError("cors_origins: name the origins, such as https://console.example.com")
        return self

    @property
    def required(self) -> bool:
        """Whether callers must say who they are."""
        return bool(self.api_keys) or self.oidc is not None

    @property
    def metrics_are_open(self) -> bool:
        return not self.required if self.open_metrics is None else self.open_metrics


class Tenant(Section):
    """What belongs to a tenant, and how much it may do at once."""

    catalogs: tuple[str, ...] = Field((), description="Its catalogs; any when absent.")
    namespaces: tuple[str, ...] = Field((), description="Its namespaces, as patterns such as sales.*; all when absent.")
    max_running: int | None = Field(None, ge=1, description="Jobs it runs at once.")
    max_queued: int | None = Field(None, ge=1, description="Jobs that may wait.")
    submissions_per_minute: int | None = Field(None, ge=1, description="Jobs that it may submit within a minute.")

    @model_validator(mode="after")
    def _owns_something(self) -> "Tenant":
        if not self.catalogs and not self.namespaces:
            raise ValueError('a tenant owns catalogs or namespaces; all of them: namespaces: ["*"]')
        return self

    def owns(self, table: TableRef) -> bool:
        return self.owns_namespace(table.catalog, table.namespace)

    def owns_namespace(self, catalog: str, namespace: tuple[str, ...]) -> bool:
        if self.catalogs and catalog not in self.catalogs:
            return False
        dotted = ".".join(namespace)
        return not self.namespaces or any(fnmatchcase(dotted, pattern) for pattern in self.namespaces)


Tenants = dict[Name, Tenant]


def check_tenants(access: AccessSettings, tenants: Mapping[str, Tenant]) -> None:
    """Raises ValueError when a key's tenant does not exist, or has none where there are tenants."""
    known = {*tenants, ALL_TENANTS} if tenants else {DEFAULT_TENANT, ALL_TENANTS}
    for key in access.api_keys:
        if key.tenant is not None and key.tenant not in known:
            raise ValueError(f"the API key {key.name!r} is of tenant {key.tenant!r}, which `tenants:` does not have")
        if key.tenant is None and tenants and key.role is not Role.ADMIN:
            raise ValueError(f"the API key {key.name!r} needs a tenant: one of {', '.join(tenants)}, or '*' for all")
    if tenants and access.oidc is not None and access.oidc.tenant_claim is None:
        raise ValueError("access.oidc needs a tenant_claim, because there are tenants")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # a name may lead anywhere


def why_not_open(access: AccessSettings, host: str, *, insecure: bool) -> str | None:
    """Why a service must not listen on `host` with these settings; None when it may."""
    if insecure or is_loopback(host) or access.required:
        return None
    return (
        f"{host or 'Every address'} can be reached from other machines, and nobody would have to say who they are. "
        "Configure access.api_keys (`tidyberg key new` makes one) or access.oidc, listen on 127.0.0.1, "
        "or accept the risk with --insecure or TIDYBERG_INSECURE=1."
    )
