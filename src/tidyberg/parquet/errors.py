"""The errors of the Parquet package."""


class BadThriftError(ValueError):
    """The bytes are not a Thrift structure."""


class CannotCopy(Exception):  # noqa: N818 - a refusal, not an error: the caller decodes the file instead
    """The bytes of a file cannot be shown to be safe to move. The message says why, in words that follow "because"."""


class DamagedFooter(CannotCopy):
    """The footer is damaged in a way that makes Arrow abort the process, so the file must not be decoded either."""
