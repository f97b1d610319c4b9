"""The one list of words by which stores, client libraries and databases say that access is denied."""

import re

DENIED_WORDS: dict[str, tuple[str, ...]] = {
    "S3": ("AccessDenied", "Access Denied", "Forbidden", "InvalidAccessKey", "SignatureDoesNotMatch"),
    "Arrow": (
        "ACCESS_DENIED",
        "INVALID_ACCESS_KEY_ID",
        "INVALID_SIGNATURE",
        "HTTP status 403",
        "HTTP response code 403",
    ),
    "AWS clients": ("UnrecognizedClient", "not authorized", "no credentials", "Unable to locate credentials"),
    "HTTP": ("Unauthorized",),
    "databases": ("password authentication", "readonly database"),
}
EXPIRED_WORDS = ("ExpiredToken", "EXPIRED_TOKEN", "TokenRefreshRequired")


def _begins_with_any(words: tuple[str, ...]) -> re.Pattern[str]:
    # Messages quote paths. A word that begins inside a path, such as "/unauthorized_logins/", does not count.
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(map(re.escape, words))})", re.IGNORECASE)


_DENIED = _begins_with_any(tuple(word for words in DENIED_WORDS.values() for word in words))
_EXPIRED = _begins_with_any(EXPIRED_WORDS)


def is_denied(message: str) -> bool:
    """Whether an error message says that access is denied."""
    return _DENIED.search(message) is not None


def is_expired(message: str) -> bool:
    """Whether an error message says that temporary credentials have expired."""
    return _EXPIRED.search(message) is not None
