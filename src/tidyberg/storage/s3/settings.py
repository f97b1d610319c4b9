"""Settings of an S3 store. Property names are PyIceberg's, and Iceberg Java's where PyIceberg has none."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tidyberg.storage.s3.signing import Credentials

MB = 1024 * 1024
# Small parts cost more requests. Large parts delay the end, because the last part is sent after encoding has finished.
# At this size both effects cost the same for outputs of 128 MB. Memory holds at most `uploads_at_once` + 1 parts.
PART_BYTES = 32 * MB
# Arrow's S3 client supports these properties, and this one does not.
_ARROW_ONLY = ("s3.role-arn", "client.role-arn", "s3.proxy-uri", "s3.signer", "s3.profile-name")


@dataclass(frozen=True, slots=True)
class S3Settings:
    endpoint: str | None  # scheme and host; None means Amazon's endpoint of the region
    region: str
    credentials: Credentials
    virtual_hosts: bool  # the bucket is part of the host's name
    connect_seconds: float = 5.0
    request_seconds: float = 60.0
    retries: int = 12  # of one request, after its first attempt
    retry_seconds: float = 60.0  # no attempt starts later than this after the first failure
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 8.0
    part_bytes: int = PART_BYTES  # of an upload
    uploads_at_once: int = 4

    @classmethod
    def of(cls, properties: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> "S3Settings | None":
        """Returns None if only Arrow supports the settings: roles, proxies, credentials from files or hosts."""

        def first(*names: str) -> str | None:
            return next((properties[name] for name in names if properties.get(name)), None)

        def number(name: str, otherwise: float, scale: float = 1.0) -> float:
            return float(properties[name]) * scale if properties.get(name) else otherwise

        credentials = _credentials(properties, environment)
        if credentials is None or first(*_ARROW_ONLY) or is_true(properties.get("s3.anonymous")):
            return None
        endpoint = first("s3.endpoint")
        if endpoint is not None and "://" not in endpoint:
            endpoint = f"https://{endpoint}"
        region = first("s3.region", "client.region") or environment.get("AWS_REGION")
        return cls(
            endpoint=endpoint.rstrip("/") if endpoint else None,
            region=region or environment.get("AWS_DEFAULT_REGION") or "us-east-1",
            credentials=credentials,
            virtual_hosts=_is_virtual(endpoint, properties),
            connect_seconds=number("s3.connect-timeout", 5.0),
            request_seconds=number("s3.request-timeout", 60.0),
            retries=int(number("s3.retry.num-retries", 12)),
            retry_seconds=number("s3.retry.budget-seconds", 60.0),
            first_wait_seconds=number("s3.retry.min-wait-ms", 0.1, 0.001),
            longest_wait_seconds=number("s3.retry.max-wait-ms", 8.0, 0.001),
            part_bytes=min(max(int(number("s3.multipart.part-size-bytes", PART_BYTES)), 5 * MB), 512 * MB),
            uploads_at_once=max(1, int(number("s3.multipart.num-threads", 4))),
        )

    def address(self, bucket: str, region: str) -> tuple[bool, str, str]:
        """Returns whether to use TLS, the host with its port, and the path before the key."""
        if self.endpoint is None:
            suffix = ".cn" if region.startswith("cn-") else ""
            secure, host, base = True, f"s3.{region}.amazonaws.com{suffix}", ""
        else:
            url = urlsplit(self.endpoint)
            secure, host, base = url.scheme == "https", url.netloc, url.path
        # A certificate for *.host does not cover a bucket with a dot in its name.
        if self.virtual_hosts and not (secure and "." in bucket):
            return secure, f"{bucket}.{host}", base
        return secure, host, f"{base}/{bucket}"


def _credentials(properties: Mapping[str, str], environment: Mapping[str, str]) -> Credentials | None:
    for prefix in ("s3.", "client."):
        key, secret = properties.get(f"{prefix}access-key-id"), properties.get(f"{prefix}secret-access-key")
        if key and secret:
            return Credentials(key, secret, properties.get(f"{prefix}session-token") or None)
    key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    return Credentials(key, secret, environment.get("AWS_SESSION_TOKEN") or None) if key and secret else None


def _is_virtual(endpoint: str | None, properties: Mapping[str, str]) -> bool:
    """Returns True for virtual-hosted style, which is the default for Amazon only. Arrow does the same."""
    if properties.get("s3.path-style-access"):
        return not is_true(properties["s3.path-style-access"])
    return endpoint is None or is_true(properties.get("s3.force-virtual-addressing"))


def is_true(text: str | None) -> bool:
    return (text or "").strip().lower() in ("true", "1", "yes", "y", "on")
