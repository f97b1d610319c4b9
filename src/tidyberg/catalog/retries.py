"""How PyIceberg's own access to S3 tries again: named in catalogs' properties, made without arguments."""

from pyarrow.fs import AwsStandardS3RetryStrategy


class PatientRetries(AwsStandardS3RetryStrategy):  # type: ignore[misc]  # untyped
    """Ten attempts with growing waits, where Arrow makes three: a commit hangs on every request for metadata."""

    def __init__(self) -> None:
        super().__init__(max_attempts=10)
