"""The retry strategy of PyIceberg's access to S3. Catalog properties name this class."""

from pyarrow.fs import AwsStandardS3RetryStrategy


class PatientRetries(AwsStandardS3RetryStrategy):  # type: ignore[misc]  # untyped
    """Makes ten attempts instead of Arrow's three, because one failed metadata request fails a whole commit."""

    def __init__(self) -> None:
        super().__init__(max_attempts=10)
