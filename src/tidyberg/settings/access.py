"""Settings for access to a service: API keys, an identity provider, tenants, and the check against open services."""

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
from tidyberg.settings.job_options import KindName

KEY_PREFIX = "tdb_"
_KEY_BYTES = 32
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
# Records name the principal. The name of a key must not look like "oidc:…", "schedule:…" and the like.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_RESERVED_NAMES = {"local", "anonymous", "auto"}
# Only algorithms with a public key are allowed. With HS*, everyone who can read the public key could sign.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def new_key() -> str:
    """Return a new API key with 256 random bits."""
    return KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def hash_key(key: str) -> str:
    # A slow, salted hash protects passwords, which attackers can guess. Nobody can guess 256 random bits, so one round
    # of SHA-256 is as safe, and it does not slow requests down.
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def _key_hash(value: Any) -> Any:
    """I12: the message does not quote the value, because it may be a key that somebody pasted here."""
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


def _not_a_viewer(role: Role) -> Role:
    if role is Role.VIEWER:
        raise ValueError("a viewer only reads; choose operator or admin")
    return role


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def check_address(value: str) -> str:
    """Public keys must come over HTTPS, because plain HTTP can be forged. The loopback interface is an exception."""
    parts = urlsplit(value)
    if parts.username or parts.password:
        raise ValueError("an address must not contain a password")
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise ValueError("an address begins with https://")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("an address on another machine begins with https://")
    return value


Name = Annotated[str, AfterValidator(_name)]
JobRole = Annotated[Role, AfterValidator(_not_a_viewer)]
SafeAddress = Annotated[str, AfterValidator(check_address)]


class ApiKey(Section):
    name: Name = Field(description="The owner of the key. Jobs and the audit log show this name.")
    hash: Annotated[str, BeforeValidator(_key_hash)] = Field(
        description="The hash of the key. `tidyberg key new` prints it."
    )
    role: Role = Field(
        Role.VIEWER, description="viewer reads, operator also submits and schedules, admin does everything."
    )
    tenant: str | None = Field(None, description="The tenant of the key, or `*` for all. Not needed without tenants.")
    expires: Annotated[datetime, AfterValidator(_in_utc)] | None = Field(
        None, description="The time from which the key is no longer valid."
    )


class Oidc(Section):
    """An identity provider whose signed tokens (JWT) the service accepts."""

    issuer: SafeAddress = Field(description="The exact issuer (`iss`) of the tokens.")
    audience: str = Field(min_length=1, description="The audience (`aud`) that tokens must have.")
    jwks_uri: SafeAddress | None = Field(
        None, description="The address of its public keys. By default the issuer's discovery document names it."
    )
    algorithms: tuple[Algorithm, ...] = Field(("RS256", "ES256"), min_length=1, description="Signatures to accept.")
    role_claim: str = Field(
        "roles", min_length=1, description="The claim that holds the roles. `a.b` looks inside `a`."
    )
    roles: dict[str, Role] = Field(
        default_factory=lambda: {role.value: role for role in Role},
        min_length=1,
        description="The role for each value of the claim. The highest one counts.",
    )
    tenant_claim: str | None = Field(None, min_length=1, description="The claim that holds the tenant.")
    name_claim: str = Field("sub", min_length=1, description="The claim that holds the name.")
    leeway_seconds: float = Field(30.0, ge=0, le=300, description="By how many seconds clocks may differ.")
    timeout_seconds: float = Field(5.0, gt=0, description="The time limit for each request to the provider.")
    cache_seconds: float = Field(600.0, gt=0, description="How long its keys are cached.")
    refresh_seconds: float = Field(30.0, gt=0, description="The shortest time between two requests for the keys.")


class AccessSettings(Section):
    api_keys: tuple[ApiKey, ...] = Field((), description="The API keys that are accepted.")
    oidc: Oidc | None = Field(None, description="The identity provider whose tokens are accepted.")
    anonymous_role: Literal["viewer", "operator"] | None = Field(
        None, description="The role of callers without a key or token. By default they have none."
    )
    job_roles: dict[KindName, JobRole] = Field(
        default_factory=dict,
        description="The least role that may submit each kind of job. By default expire needs an admin, because it "
        "removes history; compact needs an operator.",
    )
    open_metrics: bool | None = Field(
        None, description="Whether metrics need no key. By default they need one if anything does."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="The allowed Host headers. By default those of this machine, or any if keys are required."
    )
    cors_origins: tuple[str, ...] = Field((), description="The origins of web pages that may call the API.")

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
        """Whether callers must authenticate."""
        return bool(self.api_keys) or self.oidc is not None

    @property
    def metrics_are_open(self) -> bool:
        return not self.required if self.open_metrics is None else self.open_metrics


class Tenant(Section):
    """What a tenant owns, and its limits."""

    catalogs: tuple[str, ...] = Field((), description="Its catalogs. By default all.")
    namespaces: tuple[str, ...] = Field((), description="Its namespaces, as patterns such as sales.*. By default all.")
    max_running: int | None = Field(None, ge=1, description="The most jobs that it may run at once.")
    max_queued: int | None = Field(None, ge=1, description="The most jobs that may wait.")
    submissions_per_minute: int | None = Field(
        None, ge=1, description="The most jobs that it may submit within a minute."
    )

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
    """Raise ValueError if the tenant of a key does not exist, or if a key needs a tenant and has none."""
    known = {*tenants, ALL_TENANTS} if tenants else {DEFAULT_TENANT, ALL_TENANTS}
    for key in access.api_keys:
        if key.tenant is not None and key.tenant not in known:
            raise ValueError(f"the API key {key.name!r} is of tenant {key.tenant!r}, which `tenants:` does not have")
        if key.tenant is None and tenants and key.role is not Role.ADMIN:
            raise ValueError(f"the API key {key.name!r} needs a tenant: one of {', '.join(tenants)}, or '*' for all")
    if tenants and access.oidc is not None and access.oidc.tenant_claim is None:
        raise ValueError("access.oidc needs a tenant_claim, because there are tenants")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # a name may resolve to any address


def why_not_open(access: AccessSettings, host: str, *, insecure: bool) -> str | None:
    """Return why a service must not listen on `host` with these settings, or None if it may."""
    if insecure or is_loopback(host) or access.required:
        return None
    return (
        f"{host or 'Every address'} can be reached from other machines, and nobody would have to say who they are. "
        "Configure access.api_keys (`tidyberg key new` makes one) or access.oidc, listen on 127.0.0.1, "
        "or accept the risk with --insecure or TIDYBERG_INSECURE=1."
    )
