"""Opens storage from a location and PyIceberg's property names, once per process and set of properties."""

import errno
import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
from pyarrow import fs

from tidyberg.execute.kernel.failures import FailureKind, KernelFailure, redact
from tidyberg.model.task import StorageAccess

_S3_SCHEMES = ("s3", "s3a", "s3n", "oss")
_GCS_SCHEMES = ("gs", "gcs")
_AZURE_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
_HDFS_SCHEMES = ("hdfs", "viewfs")
_SECRET_WORDS = ("secret", "token", "password", "account-key", "sas", "credential", "access-key")
_DENIED_WORDS = ("ACCESS_DENIED", "AccessDenied", "HTTP status 403", "HTTP response code 403", "Forbidden",
                 "InvalidAccessKeyId", "INVALID_ACCESS_KEY_ID", "SignatureDoesNotMatch", "INVALID_SIGNATURE",
                 "ExpiredToken", "EXPIRED_TOKEN")  # fmt: skip
_MISSING_WORDS = ("NoSuchKey", "HTTP status 404", "Path does not exist")

_MOST_FILESYSTEMS = 16
_filesystems: dict[str, fs.FileSystem] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Place:
    """A location, opened: the filesystem and the path within it."""

    filesystem: fs.FileSystem
    path: str
    location: str
    is_local: bool


class Storage:
    """Opens locations with one set of properties and says in plain words what storage refused."""

    def __init__(self, access: StorageAccess) -> None:
        self._properties = access.reveal()
        self._secrets = tuple(
            value
            for name, value in self._properties.items()
            if len(value) >= 4 and any(word in name.lower() for word in _SECRET_WORDS)
        )

    @property
    def identity(self) -> str:
        """Tells storages apart: the same location may be another file at another endpoint."""
        return _digest("", self._properties)

    def place(self, location: str) -> Place:
        scheme, authority, path = _split(location)
        if scheme == "file":
            return Place(_cached("file", {}, fs.LocalFileSystem), path, location, is_local=True)
        with self.guard(location):
            filesystem = _cached(
                f"{scheme}://{authority if scheme in _HDFS_SCHEMES + _AZURE_SCHEMES else ''}",
                self._properties,
                lambda: _open(scheme, authority, self._properties),
            )
        return Place(filesystem, path, location, is_local=False)

    def open_input(self, place: Place) -> pa.NativeFile:
        with self.guard(place.location):
            return place.filesystem.open_input_file(place.path)

    def open_output(self, place: Place) -> pa.NativeFile:
        with self.guard(place.location, writing=True):
            if place.is_local:
                place.filesystem.create_dir(place.path.rpartition("/")[0] or "/", recursive=True)
            return place.filesystem.open_output_stream(place.path)

    def delete(self, place: Place) -> None:
        """Remove an own output; one that is already gone is as good."""
        with self.guard(place.location, writing=True):
            if place.filesystem.get_file_info(place.path).type != fs.FileType.NotFound:
                place.filesystem.delete_file(place.path)

    @contextmanager
    def guard(self, location: str, *, writing: bool = False) -> Iterator[None]:
        """Turns what Arrow raises into a failure that names the file."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise self._failure(error, location, writing=writing) from None

    def _failure(self, error: Exception, location: str, *, writing: bool) -> KernelFailure:
        said = redact(" ".join(str(error).split()), self._secrets)[:600]
        number = getattr(error, "errno", None)
        verb = "write" if writing else "read"
        if (
            isinstance(error, PermissionError)
            or number in (errno.EACCES, errno.EPERM)
            or any(word in said for word in _DENIED_WORDS)
        ):
            return KernelFailure(FailureKind.DENIED, f"Access denied: cannot {verb} {location}: {said}")
        if number == errno.EROFS or "Read-only file system" in said:
            return KernelFailure(FailureKind.DENIED, f"Cannot write {location}: the file system is read-only.")
        if number == errno.ENOSPC or "No space left" in said:
            return KernelFailure(FailureKind.STORAGE, f"Cannot write {location}: no space left on the device.")
        if not writing and (isinstance(error, FileNotFoundError) or any(word in said for word in _MISSING_WORDS)):
            return KernelFailure(FailureKind.DAMAGED, f"{location} is missing, though the table lists it.")
        if not writing and isinstance(error, pa.ArrowInvalid | pa.ArrowNotImplementedError):
            return KernelFailure(FailureKind.DAMAGED, f"{location} is not a readable Parquet file: {said}")
        if not writing and ("deserialize thrift" in said or "Corrupt" in said or "Unexpected end of stream" in said):
            return KernelFailure(FailureKind.DAMAGED, f"{location} is not a readable Parquet file: {said}")
        return KernelFailure(FailureKind.STORAGE, f"Cannot {verb} {location}: {said}")


def _split(location: str) -> tuple[str, str, str]:
    """Scheme, authority and the path as Arrow's filesystem of that scheme wants it."""
    if "://" not in location:
        return "file", "", location.removeprefix("file:")
    scheme, _, rest = location.partition("://")
    scheme = scheme.lower()
    authority, _, path = rest.partition("/")
    if scheme == "file":
        return scheme, "", f"/{path}"
    if scheme in _HDFS_SCHEMES:
        return scheme, authority, f"/{path}"
    if scheme in _AZURE_SCHEMES:
        container, _, _ = authority.partition("@")
        return scheme, authority, f"{container}/{path}"
    return scheme, authority, f"{authority}/{path}"


def _cached(root: str, properties: Mapping[str, str], build: Any) -> fs.FileSystem:
    digest = _digest(root, properties)
    with _lock:
        if digest not in _filesystems:
            while len(_filesystems) >= _MOST_FILESYSTEMS:  # renewed credentials leave old ones behind
                _filesystems.pop(next(iter(_filesystems)))
            _filesystems[digest] = build()
        return _filesystems[digest]


def _digest(root: str, properties: Mapping[str, str]) -> str:
    return hashlib.sha256(repr((root, sorted(properties.items()))).encode()).hexdigest()


def _open(scheme: str, authority: str, properties: Mapping[str, str]) -> fs.FileSystem:
    if scheme in _S3_SCHEMES:
        return _open_s3(properties)
    if scheme in _GCS_SCHEMES:
        return _open_gcs(properties)
    if scheme in _AZURE_SCHEMES:
        return _open_azure(authority, properties)
    if scheme in _HDFS_SCHEMES:
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
        # A wrong endpoint should show within seconds; Spark tries tasks again besides.
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=4),
    }
    for name, option in (("s3.connect-timeout", "connect_timeout"), ("s3.request-timeout", "request_timeout")):
        if value := properties.get(name):
            options[option] = float(value)
    for name, option in (("s3.force-virtual-addressing", "force_virtual_addressing"), ("s3.anonymous", "anonymous")):
        if value := properties.get(name):
            options[option] = _is_true(value)
    return fs.S3FileSystem(**{name: value for name, value in options.items() if value is not None})


def _open_gcs(properties: Mapping[str, str]) -> fs.FileSystem:
    options: dict[str, Any] = {}
    if token := properties.get("gcs.oauth2.token"):
        options["access_token"] = token
        expires = properties.get("gcs.oauth2.token-expires-at")
        seconds = int(expires) / 1000 if expires else 4102444800  # without a date Arrow refuses a token
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


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("true", "1", "yes", "y", "on")
