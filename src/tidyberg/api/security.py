"""Authenticates requests by an API key or a token of an identity provider."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from hmac import compare_digest

from fastapi import FastAPI, Request
from starlette.middleware.cors import CORSMiddleware

from tidyberg.api.headers import BrowserGuard, SecurityHeaders
from tidyberg.api.oidc import TokenVerifier
from tidyberg.errors import NotAuthenticated
from tidyberg.model.principal import ALL_TENANTS, LOCAL, Principal, Role
from tidyberg.model.submission import DEFAULT_TENANT
from tidyberg.settings.access import KEY_PREFIX, AccessSettings, ApiKey, hash_key
from tidyberg.settings.serving import Server
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.log_rate_limit import rate_limited

METRICS_PATHS = ("/metrics", "/api/v1/metrics")
_MOST_KEY_CHARACTERS = 256
_HINT = "Send an API key or a token as `Authorization: Bearer …`, or an API key as `X-API-Key: …`."

_log = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class Authenticator:
    """Returns the principal of a request, or raises NotAuthenticated."""

    def __init__(self, settings: Settings, now: Callable[[], datetime] = _now) -> None:
        self._access = settings.access
        self._tokens = (
            TokenVerifier(settings.access.oidc, frozenset(settings.tenants)) if settings.access.oidc else None
        )
        self._now = now
        self.version = 0  # increases with every change of the keys

    @property
    def access(self) -> AccessSettings:
        return self._access

    def take_keys(self, keys: tuple[ApiKey, ...]) -> None:
        """Replaces the API keys. The next request uses the new ones."""
        self._access = self._access.model_copy(update={"api_keys": keys})
        self.version += 1  # last, so that a reader of the new version sees the new keys

    async def __call__(self, request: Request) -> Principal:
        if not self._access.required:
            return self._anonymous() or LOCAL
        try:
            credential = _credential(request)
            if credential is not None:
                return await self._identify(*credential)
        except NotAuthenticated as error:
            address = request.client.host if request.client else "an unknown address"
            _log.warning(
                "A credential from %s was refused: %s", address, error.message, extra=rate_limited("credential")
            )
            raise
        if request.url.path in METRICS_PATHS and self._access.metrics_are_open:
            return Principal("anonymous", Role.VIEWER, ALL_TENANTS)
        if (anonymous := self._anonymous()) is not None:
            return anonymous
        raise NotAuthenticated("This request needs an API key or a token.", hint=_HINT)

    async def _identify(self, header: str, credential: str) -> Principal:
        if credential.startswith(KEY_PREFIX) or header == "x-api-key":
            return self._of_key(credential)
        if self._tokens is None:
            raise NotAuthenticated("The credential is not an API key.", hint=_HINT)
        return await self._tokens.principal(credential)

    def _of_key(self, given: str) -> Principal:
        found: ApiKey | None = None
        digest = hash_key(given[:_MOST_KEY_CHARACTERS])
        for key in self._access.api_keys:  # check all keys, so that the time reveals nothing
            if compare_digest(key.hash, digest):
                found = key
        if found is None:
            raise NotAuthenticated("The API key is unknown.", hint=_HINT)
        if found.expires is not None and self._now() >= found.expires:
            raise NotAuthenticated(f"The API key {found.name!r} has expired.", hint="Ask for a new one.")
        return Principal(found.name, found.role, found.tenant or DEFAULT_TENANT)

    def _anonymous(self) -> Principal | None:
        role = self._access.anonymous_role
        return Principal("anonymous", Role(role)) if role is not None else None


def _credential(request: Request) -> tuple[str, str] | None:
    """Returns the header and the credential in it. Two credentials are ambiguous and refused."""
    given = [(name, value) for name in ("authorization", "x-api-key") for value in request.headers.getlist(name)]
    if not given:
        return None
    if len(given) > 1:
        raise NotAuthenticated("The request has more than one credential.", hint="Send one.")
    name, value = given[0]
    if name == "authorization":
        scheme, _, value = value.partition(" ")
        if scheme.lower() != "bearer":
            raise NotAuthenticated("Only the scheme Bearer is supported.", hint=_HINT)
    value = value.strip()
    if not value or not value.isascii():
        raise NotAuthenticated("The credential is empty or not ASCII.", hint=_HINT)
    return name, value


def secure(app: FastAPI, access: AccessSettings, server: Server) -> None:
    """Adds the middleware that protects against misuse through browsers."""
    app.add_middleware(BrowserGuard, access=access, host=server.host)
    if access.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=access.cors_origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-API-Key"],
            expose_headers=["Retry-After"],
        )
    app.add_middleware(SecurityHeaders, tls=server.tls_cert is not None)
