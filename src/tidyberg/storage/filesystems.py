"""Opens Arrow filesystems from PyIceberg's properties, and keeps one per process and set of properties."""

import hashlib
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlparse

from pyarrow import fs

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.storage.s3.settings import is_true
from tidyberg.storage.schemes import AZURE_SCHEMES, GCS_SCHEMES, HDFS_SCHEMES, S3_SCHEMES

_MOST_FILESYSTEMS = 16
_filesystems: dict[str, fs.FileSystem] = {}
_lock = threading.Lock()


def open_filesystem(scheme: str, authority: str, properties: Mapping[str, str]) -> fs.FileSystem:
    """Returns a filesystem. All buckets of a store share one; on Azure and Hadoop there is one per host."""
    if scheme == "file":
        properties = {}
    digest = identity(f"{scheme}://{authority if scheme in HDFS_SCHEMES + AZURE_SCHEMES else ''}", properties)
    with _lock:
        if digest not in _filesystems:
            while len(_filesystems) >= _MOST_FILESYSTEMS:  # each renewal of credentials adds one
                _filesystems.pop(next(iter(_filesystems)))
            _filesystems[digest] = _open(scheme, authority, properties)
        return _filesystems[digest]


def identity(root: str, properties: Mapping[str, str]) -> str:
    return hashlib.sha256(repr((root, sorted(properties.items()))).encode()).hexdigest()


def _open(scheme: str, authority: str, properties: Mapping[str, str]) -> fs.FileSystem:
    if scheme == "file":
        return fs.LocalFileSystem()
    if scheme in (*S3_SCHEMES, "oss"):
        return _open_s3(properties)
    if scheme in GCS_SCHEMES:
        return _open_gcs(properties)
    if scheme in AZURE_SCHEMES:
        return _open_azure(authority, properties)
    if scheme in HDFS_SCHEMES:
        return _open_hdfs(scheme, authority, properties)
    raise KernelFailure(FailureKind.STORAGE, f"Storage of scheme {scheme!r} is not supported.")


def _open_s3(properties: Mapping[str, str]) -> fs.FileSystem:
    def first(*names: str) -> str | None:
        return next((properties[name] for name in names if properties.get(name)), None)

    options: dict[str, Any] = {
        "endpoint_override": first("s3.endpoint"),
        "access_key": first("s3.access-key-id", "client.access-key-id"),
        "secret_key": first("s3.secret-access-key", "client.secret-access-key"),
        "session_token": first("s3.session-token", "client.session-token"),
        "region": first("s3.region", "client.region"),
        "role_arn": first("s3.role-arn", "client.role-arn"),
        "session_name": first("s3.role-session-name", "client.role-session-name"),
        "proxy_options": first("s3.proxy-uri"),
        # A wrong endpoint should fail within seconds. Spark retries whole tasks anyway.
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=int(first("s3.retry.num-retries") or 4)),
    }
    if path_style := properties.get("s3.path-style-access"):
        options["force_virtual_addressing"] = not is_true(path_style)
    for name, option in (("s3.connect-timeout", "connect_timeout"), ("s3.request-timeout", "request_timeout")):
        if value := properties.get(name):
            options[option] = float(value)
    for name, option in (("s3.force-virtual-addressing", "force_virtual_addressing"), ("s3.anonymous", "anonymous")):
        if value := properties.get(name):
            options[option] = is_true(value)
    return fs.S3FileSystem(**{name: value for name, value in options.items() if value is not None})


def _open_gcs(properties: Mapping[str, str]) -> fs.FileSystem:
    options: dict[str, Any] = {}
    if token := properties.get("gcs.oauth2.token"):
        options["access_token"] = token
        expires = properties.get("gcs.oauth2.token-expires-at")
        seconds = int(expires) / 1000 if expires else 4102444800  # Arrow rejects a token that has no expiry
        options["credential_token_expiration"] = datetime.fromtimestamp(seconds, UTC)
    if location := properties.get("gcs.default-bucket-location"):
        options["default_bucket_location"] = location
    if endpoint := properties.get("gcs.service.host"):
        url = urlparse(endpoint)
        options["scheme"] = url.scheme
        options["endpoint_override"] = url.netloc
    return fs.GcsFileSystem(**options)


def _open_azure(authority: str, properties: Mapping[str, str]) -> fs.FileSystem:
    names = {
        "adls.account-name": "account_name",
        "adls.account-key": "account_key",
        "adls.blob-storage-authority": "blob_storage_authority",
        "adls.dfs-storage-authority": "dfs_storage_authority",
        "adls.blob-storage-scheme": "blob_storage_scheme",
        "adls.dfs-storage-scheme": "dfs_storage_scheme",
        "adls.sas-token": "sas_token",
        "adls.client-id": "client_id",
        "adls.client-secret": "client_secret",
        "adls.tenant-id": "tenant_id",
    }
    options = {option: properties[name] for name, option in names.items() if properties.get(name)}
    _, _, host = authority.partition("@")
    if "account_name" not in options and host:
        options["account_name"] = host.partition(".")[0]
    return fs.AzureFileSystem(**options)


def _open_hdfs(scheme: str, authority: str, properties: Mapping[str, str]) -> fs.FileSystem:
    if authority:
        return fs.HadoopFileSystem.from_uri(f"{scheme}://{authority}")
    names = {"hdfs.host": "host", "hdfs.user": "user", "hdfs.kerberos_ticket": "kerb_ticket"}
    options: dict[str, Any] = {option: properties[name] for name, option in names.items() if properties.get(name)}
    if port := properties.get("hdfs.port"):
        options["port"] = int(port)
    return fs.HadoopFileSystem(**options)
