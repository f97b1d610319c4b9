"""Verifies tokens (JWT) of an identity provider: the signature, the audience, the issuer and the lifetime.

The public keys of the provider are cached. They are read again when they are old or when a token names an unknown key,
but never more often than the settings allow.
"""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import httpx
import jwt

from tidyberg.errors import AccessDenied, IdentityProviderDown, NotAuthenticated
from tidyberg.model.principal import Principal, Role
from tidyberg.model.submission import DEFAULT_TENANT
from tidyberg.redact import redact_text
from tidyberg.settings.access import Oidc, check_address

MOST_TOKEN_CHARACTERS = 16 * 1024
MOST_NAME_CHARACTERS = 200
_MOST_ANSWER_BYTES = 1024 * 1024
# How long expired keys stay valid while the provider does not answer. It may have revoked one.
_MOST_STALE_SECONDS = 3600.0
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
# These reasons are given only for tokens with a valid signature, so that guessing reveals nothing.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "The token has expired."),
    (jwt.ImmatureSignatureError, "The token is not valid yet."),
    (jwt.InvalidAudienceError, "The token is meant for another audience."),
    (jwt.InvalidIssuerError, "The token is from another issuer."),
    (jwt.MissingRequiredClaimError, "The token must have the claims exp, iss and aud."),
)

_log = logging.getLogger(__name__)


class TokenVerifier:
    """Returns the principal of a token."""

    def __init__(self, settings: Oidc, tenants: frozenset[str]) -> None:
        self._settings = settings
        self._tenants = tenants
        self._keys = PublicKeys(settings)
        self._decoder = jwt.PyJWT(options={"enforce_minimum_key_length": True})

    async def principal(self, token: str) -> Principal:
        claims = await self._claims(token)
        name = claims.get(self._settings.name_claim)
        if not isinstance(name, str) or not name or len(name) > MOST_NAME_CHARACTERS or not name.isprintable():
            raise NotAuthenticated(f"The token does not say whose it is in {self._settings.name_claim!r}.")
        role = self._role(claims)
        return Principal(f"oidc:{name}", role, self._tenant(claims, role))

    async def _claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > MOST_TOKEN_CHARACTERS:
            raise NotAuthenticated("The token is too long.")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _not_valid() from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        # The settings choose the algorithm, never the token. Otherwise an attacker could send `none`, or HS256 with the
        # public key as the secret.
        if algorithm not in self._settings.algorithms or "crit" in header or not isinstance(key_id, str | None):
            raise _not_valid()
        key = await self._keys.key(key_id, algorithm)
        try:
            return self._decoder.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=self._settings.leeway_seconds,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, RecursionError, OverflowError) as error:
            reason = next((text for kind, text in _REASONS if isinstance(error, kind)), None)
            raise (NotAuthenticated(reason) if reason else _not_valid()) from None

    def _role(self, claims: Mapping[str, Any]) -> Role:
        given = _claim(claims, self._settings.role_claim)
        values = given.split() if isinstance(given, str) else given if isinstance(given, Sequence) else ()
        roles = [
            self._settings.roles[value] for value in values if isinstance(value, str) and value in self._settings.roles
        ]
        if not roles:
            raise AccessDenied(
                f"The token gives no role in {self._settings.role_claim!r}.",
                hint="An administrator can map its values to roles in access.oidc.roles.",
            )
        return max(roles, key=list(Role).index)

    def _tenant(self, claims: Mapping[str, Any], role: Role) -> str:
        if self._settings.tenant_claim is None:
            return DEFAULT_TENANT
        tenant = _claim(claims, self._settings.tenant_claim)
        if isinstance(tenant, str) and tenant in self._tenants:
            return tenant
        if role is Role.ADMIN and tenant is None:
            return DEFAULT_TENANT
        raise AccessDenied(f"The token names no known tenant in {self._settings.tenant_claim!r}.")


class PublicKeys:
    """The cached public keys of the provider."""

    def __init__(self, settings: Oidc, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._keys: tuple[Mapping[str, Any], ...] = ()
        self._seen_at: float | None = None
        self._asked_at: float | None = None
        self._failure: str | None = None
        self._asking: asyncio.Task[None] | None = None
        self._authorities = _authorities()

    async def key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK:
        age = self._age(self._seen_at)
        if age >= self._settings.cache_seconds:
            asking = self._ask()
            if age >= self._settings.cache_seconds + _MOST_STALE_SECONDS:
                self._keys = ()
            if not self._keys and asking is not None:
                await asyncio.shield(asking)
        found = self._match(key_id, algorithm)
        if found is None and (asking := self._ask()) is not None:  # the key may be new
            await asyncio.shield(asking)
            found = self._match(key_id, algorithm)
        if found is not None:
            return found
        if self._failure is not None:
            raise IdentityProviderDown(
                f"The token cannot be checked: the identity provider's keys could not be read. {self._failure}",
                hint="Try again later.",
            )
        raise _not_valid()

    def _age(self, moment: float | None) -> float:
        return float("inf") if moment is None else self._clock() - moment

    def _ask(self) -> "asyncio.Task[None] | None":
        """Returns the request under way or a new one. Returns None if the last one was too recent."""
        if self._asking is None and self._age(self._asked_at) >= self._settings.refresh_seconds:
            self._asked_at = self._clock()
            self._asking = asyncio.create_task(self._read())
        return self._asking

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                self._keys = await self._fetch()
            self._seen_at, self._failure = self._clock(), None
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
            TimeoutError,
        ) as error:
            self._failure = redact_text(f"{type(error).__name__}: {error}".removesuffix(": ") + ".")
            _log.warning(
                "The keys of the identity provider %s cannot be read: %s", self._settings.issuer, self._failure
            )
        finally:
            self._asking = None

    async def _fetch(self) -> tuple[Mapping[str, Any], ...]:
        timeout = self._settings.timeout_seconds
        async with httpx.AsyncClient(timeout=timeout, verify=self._authorities, follow_redirects=False) as client:
            address = self._settings.jwks_uri or await self._discover(client)
            keys = (await _read_json(client, address))["keys"]
        usable = tuple(key for key in keys if _is_usable(key))
        if not usable:
            raise ValueError("it publishes no usable public key")
        return usable

    async def _discover(self, client: httpx.AsyncClient) -> str:
        issuer = self._settings.issuer
        document = await _read_json(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if document["issuer"] != issuer:
            raise ValueError("its configuration names another issuer")
        return check_address(str(document["jwks_uri"]))

    def _match(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        fitting = [
            key
            for key in self._keys
            if key["kty"] == _KEY_TYPES[algorithm[:2]]
            and key.get("alg", algorithm) == algorithm
            and (key_id is None or key.get("kid") == key_id)
        ]
        if len(fitting) != 1:  # ambiguous: the token names no key id
            return None
        try:
            return jwt.PyJWK(dict(fitting[0]), algorithm)
        except (jwt.PyJWTError, ValueError, TypeError):
            return None


@cache
def _authorities() -> ssl.SSLContext:
    """Loads the certificate authorities once, before the first request, because loading is slow."""
    return httpx.create_ssl_context()


async def _read_json(client: httpx.AsyncClient, address: str) -> Mapping[str, Any]:
    async with client.stream("GET", address, headers={"Accept": "application/json"}) as response:
        if response.status_code != httpx.codes.OK:
            raise ValueError(f"{response.status_code} from {address}")
        content = b""
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > _MOST_ANSWER_BYTES:
                raise ValueError(f"more than {_MOST_ANSWER_BYTES} bytes from {address}")
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError(f"no JSON object from {address}")
    return found


def _is_usable(key: Any) -> bool:
    """Returns True for a public signature key. Secrets (`oct`) and private keys are ignored."""
    return (
        isinstance(key, dict)
        and key.get("kty") in _KEY_TYPES.values()
        and key.get("use", "sig") == "sig"
        and "d" not in key
    )


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Returns a claim by name. `a.b` also means the claim `b` inside `a`, if no claim has the whole name."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _not_valid() -> NotAuthenticated:
    return NotAuthenticated("The token is not valid.")
