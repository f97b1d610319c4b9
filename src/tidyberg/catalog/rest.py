"""PyIceberg's REST catalog with a time limit and retries on every request; it has neither by itself."""

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
    """A RestCatalog whose sessions give up in time, and ask again where asking twice is harmless."""

    def __init__(self, name: str, timeout_seconds: float, **properties: Any) -> None:
        super().__init__(name, **{**properties, _TIMEOUT_PROPERTY: str(timeout_seconds)})

    def _config_headers(self, session: Session) -> None:
        # Called first on every session PyIceberg makes, before it fetches a token: the earliest place there is.
        super()._config_headers(session)
        bound_session(session, float(self.properties[_TIMEOUT_PROPERTY]))


def bound_session(session: Session, timeout_seconds: float) -> None:
    adapter = HTTPAdapter(max_retries=_retry_policy())
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    limits = (min(CONNECT_TIMEOUT_SECONDS, timeout_seconds), timeout_seconds)
    session.send = _with_timeout(session.send, limits)  # type: ignore[method-assign]


def _retry_policy() -> Retry:
    """A connection that was never made may be tried again for any request; an answer that was lost, or an
    overloaded server, only for reads: a commit sent twice could land twice [I7]."""
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
