"""Errors that the API raises before a request reaches the service."""

from tidyberg.errors import BadInput, Transient


class MalformedRequest(BadInput):
    """The body is not JSON, or contains values that are not accepted."""

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
    """A principal or an address sent too many requests."""

    code = "rate-limited"
    http_status = 429

    def __init__(self, message: str, *, hint: str | None = None, retry_after_seconds: int) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class Overloaded(Transient):
    """The service has more work than it can answer in time."""

    code = "overloaded"

    def __init__(self, message: str, *, hint: str | None = None, retry_after_seconds: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds
