"""What the API itself refuses, before anything reaches the service."""

from tidyberg.errors import BadInput, Transient


class MalformedRequest(BadInput):
    """Not JSON, or JSON that no client of good will sends."""

    code = "malformed-request"
    http_status = 400


class NoSuchRoute(BadInput):
    code = "not-found"
    http_status = 404


class MethodNotAllowed(BadInput):
    code = "method-not-allowed"
    http_status = 405


class TooSlow(BadInput):
    """The client took too long to send its request."""

    code = "request-timeout"
    http_status = 408


class BodyTooLarge(BadInput):
    code = "body-too-large"
    http_status = 413


class NotJson(BadInput):
    code = "unsupported-media-type"
    http_status = 415


class RateLimited(Transient):
    """Too many requests of one principal or address."""

    code = "rate-limited"
    http_status = 429

    def __init__(self, message: str, *, hint: str | None = None, retry_after_seconds: int) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class Overloaded(Transient):
    """More calls wait than can be answered in time."""

    code = "overloaded"

    def __init__(self, message: str, *, hint: str | None = None, retry_after_seconds: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds
