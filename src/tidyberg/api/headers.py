"""Protection against misuse through browsers: security headers, DNS rebinding and cross-origin requests."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers as RequestHeaders
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidyberg.api.problems import respond
from tidyberg.errors import AccessDenied, BadInput, TidybergError
from tidyberg.settings.access import AccessSettings, is_loopback

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._\-]+)(:[0-9]*)?")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # The documentation page has an inline style. API responses load nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
_ONLY_TLS = {"Strict-Transport-Security": "max-age=31536000"}


class WrongHost(BadInput):
    code = "wrong-host"
    http_status = 421


class CrossOrigin(AccessDenied):
    code = "cross-origin"


class SecurityHeaders:
    """Middleware that adds security headers to every response, also to errors."""

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        self._headers = {**_ALWAYS, **(_ONLY_TLS if tls else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class BrowserGuard:
    """Middleware that refuses requests that a foreign web page sends through a browser.

    Without authentication, such a page could act as the owner of the machine. It can use DNS rebinding, which the
    `Host` header reveals. Or it can send a request and ignore the response, which the `Origin` header reveals:
    browsers send it with every method that is not safe.
    """

    def __init__(self, app: ASGIApp, *, access: AccessSettings, host: str) -> None:
        self._app = app
        self._hosts = tuple(name.lower() for name in access.allowed_hosts)
        self._checks_host = bool(self._hosts) or (is_loopback(host) and not access.required)
        self._origins = tuple(origin.rstrip("/").lower() for origin in access.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._judge(scope)) is not None:
            await respond(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _judge(self, scope: Scope) -> TidybergError | None:
        headers = RequestHeaders(scope=scope)
        hosts = headers.getlist("host")
        if self._checks_host and not self._is_ours(hosts):
            return WrongHost(
                f"This service does not answer for {', '.join(hosts)[:100]!r}.",
                hint="Use the address that it listens on, or add the host to access.allowed_hosts.",
            )
        if scope["method"] not in _SAFE_METHODS and self._is_foreign(headers, hosts):
            return CrossOrigin(
                "A page of another origin sent this request.", hint="Add its origin to access.cors_origins to allow it."
            )
        return None

    def _is_ours(self, hosts: Sequence[str]) -> bool:
        if len(hosts) != 1:
            return False
        name = _host_name(hosts[0])
        return is_loopback(name) or name in self._hosts

    def _is_foreign(self, headers: RequestHeaders, hosts: Sequence[str]) -> bool:
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if not origins:
            return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        ours = (*self._origins, *(f"{scheme}://{host.lower()}" for scheme in ("http", "https") for host in hosts))
        return any(origin not in ours for origin in origins)


def _host_name(host: str) -> str:
    """Returns the host without the port, or an empty string if it is not a host."""
    found = _HOST.fullmatch(host)
    return found["name"].lower() if found else ""
