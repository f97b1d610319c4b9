"""Adds a time limit and retries to every request of PyIceberg's REST catalog, which has neither."""

from collections.abc import Callable
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

CONNECT_TIMEOUT_SECONDS = 10.0
_RETRIES = 3
_TIMEOUT_PROPERTY = "tidyberg.http-timeout-seconds"


class BoundedRestCatalog(RestCatalog):
    """A RestCatalog whose requests have a time limit, and are retried if a second request does no harm."""

    def __init__(self, name: str, timeout_seconds: float, **properties: Any) -> None:
        super().__init__(name, **{**properties, _TIMEOUT_PROPERTY: str(timeout_seconds)})

    def _config_headers(self, session: Session) -> None:
        # PyIceberg calls this first for every new session, before it fetches a token.
        super()._config_headers(session)
        bound_session(session, float(self.properties[_TIMEOUT_PROPERTY]))


def bound_session(session: Session, timeout_seconds: float) -> None:
    adapter = HTTPAdapter(max_retries=_retry_policy())
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    limits = (min(CONNECT_TIMEOUT_SECONDS, timeout_seconds), timeout_seconds)
    session.send = _with_timeout(session.send, limits)  # type: ignore[method-assign]


def _retry_policy() -> Retry:
    """Retry any request whose connection failed, but only reads after a lost answer or an overloaded server.

    A commit that is sent twice could be applied twice [I7].
    """
    return Retry(
        total=_RETRIES,
        connect=_RETRIES,
        read=_RETRIES,
        status=_RETRIES,
        status_forcelist=(429, 502, 503, 504),
        allowed_methods=frozenset({"GET", "HEAD"}),
        backoff_factor=0.2,
        backoff_jitter=0.1,
        backoff_max=5.0,
        raise_on_status=False,
    )


def _with_timeout(send: Callable[..., Response], limits: tuple[float, float]) -> Callable[..., Response]:
    def bounded_send(request: PreparedRequest, **options: Any) -> Response:
        if options.get("timeout") is None:
            options["timeout"] = limits
        return send(request, **options)

    return bounded_send
