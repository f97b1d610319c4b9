"""Maps the errors of catalogs and their client libraries to tidyberg's errors, and masks secrets in them."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import ValidationError
from pyiceberg import exceptions as iceberg

from tidyberg.errors import (
    AccessDenied,
    CatalogUnreachable,
    ConfigurationError,
    DamagedFile,
    StorageError,
    TidybergError,
    UnknownNamespace,
    UnknownTable,
    Unsupported,
)
from tidyberg.redact import redact_text
from tidyberg.storage.denied import is_denied, is_expired

_DENIED = (iceberg.UnauthorizedError, iceberg.ForbiddenError, iceberg.AuthorizationExpiredError, iceberg.OAuthError)
_BUSY = (iceberg.ServiceUnavailableError, iceberg.ServerError, iceberg.TooManyRequestsError)
_BAD_ADDRESS = ("InvalidURL", "MissingSchema", "InvalidSchema")
# The messages with which PyIceberg rejects a type of the specification that it does not know, such as variant.
_UNKNOWN_TYPE = re.compile(r"Unsupported field type: '([^']+)'|Could not parse (\S+) into a")
_UNKNOWN_VERSION = re.compile(r"Input tag '(\d+)' found using 'format_version'|Unknown format version: (\d+)")
# Client libraries that may be absent or are slow to import. Their exceptions are recognized by the package name.
_REMOTE_PACKAGES = ("sqlalchemy", "botocore", "boto3", "thrift", "google", "psycopg2", "socket")


@contextmanager
def catalog_errors(catalog: str, *, what: str = "", secrets: Sequence[str] = ()) -> Iterator[None]:
    """Convert errors of requests to a catalog. Do not use it for commits, because their outcome may be unknown.

    `what` names the requested object ("analytics.events") in messages.
    """
    try:
        yield
    except TidybergError:
        raise
    except (
        iceberg.RESTError, iceberg.NoSuchTableError, iceberg.NoSuchNamespaceError, iceberg.NoSuchIdentifierError,
        iceberg.NotInstalledError, iceberg.SignError, iceberg.DynamoDbError, iceberg.ValidationError,
        OSError, EOFError, ValueError, ImportError, NotImplementedError,
    ) as error:  # fmt: skip
        raise translate(error, catalog, what, secrets) from _without_secrets(error, secrets)
    except Exception as error:
        # Client libraries of optional catalogs have their own error trees. Any other error is a bug, so it passes.
        if type(error).__module__.split(".")[0] not in _REMOTE_PACKAGES:
            raise
        raise translate(error, catalog, what, secrets) from _without_secrets(error, secrets)


def _without_secrets(error: Exception, secrets: Sequence[str]) -> Exception | None:
    """Return the cause to chain, or None if its message would leak a secret into a traceback [I12]."""
    return error if redact_text(str(error), secrets) == str(error) else None


def translate(error: Exception, catalog: str, what: str, secrets: Sequence[str]) -> TidybergError:
    said = _first_line(redact_text(str(error), secrets)) or type(error).__name__
    if isinstance(error, ValidationError | iceberg.ValidationError) and (unknown := _unknown(error, what)) is not None:
        return unknown
    if (missing := _missing(error, catalog, what, said)) is not None:
        return missing
    if isinstance(error, _DENIED) or is_denied(said) or is_expired(said):
        return AccessDenied(
            f"Catalog {catalog!r} refused access: {said}", hint="Check its credential, token or access keys."
        )
    if _is_http(error, *_BAD_ADDRESS) or _is_sql(error, "ArgumentError"):
        return ConfigurationError(f"The address of catalog {catalog!r} is not usable: {said}")
    if _is_http(error, "RequestException") or _is_sql(error, "OperationalError", "InterfaceError"):
        return _unreachable(catalog, error, said)
    if isinstance(error, iceberg.ValidationError | EOFError):  # a truncated gzip file raises EOFError
        return DamagedFile(f"The metadata of {what or 'a table'} cannot be understood: {' '.join(str(error).split())}")
    if isinstance(error, ValidationError):
        return CatalogUnreachable(
            f"Catalog {catalog!r} did not answer as an Iceberg catalog does.", hint="Check its uri."
        )
    if isinstance(error, _BUSY):
        return CatalogUnreachable(f"Catalog {catalog!r} could not answer: {said}", hint="Try again later.")
    if isinstance(error, iceberg.NotInstalledError | ImportError) or _is_sql(error, "NoSuchModuleError"):
        return ConfigurationError(
            f"Catalog {catalog!r} needs a client library that is not installed: {said}",
            hint="Install tidyberg[glue], tidyberg[hive] or the database's driver.",
        )
    if isinstance(error, iceberg.SignError):
        return Unsupported(f"Catalog {catalog!r} only offers remote signing, which workers cannot use: {said}")
    if isinstance(error, NotImplementedError):
        return Unsupported(f"Catalog {catalog!r} does not offer what is needed: {said}")
    if isinstance(error, OSError):
        return _storage(error, what or catalog, said)
    if isinstance(error, iceberg.RESTError | ValueError):
        return ConfigurationError(f"Catalog {catalog!r} refused the request: {said}", hint="Check its properties.")
    return CatalogUnreachable(f"Catalog {catalog!r} could not answer: {said}", hint="Try again later.")


def _unknown(error: Exception, what: str) -> Unsupported | None:
    """Return an error for a valid table that PyIceberg cannot load, or None."""
    hint = "It cannot be compacted; other tables of the catalog can."
    table = what or "A table"
    if found := _UNKNOWN_TYPE.search(str(error)):
        return Unsupported(f"{table} has a column of type {found[1] or found[2]}, which is not supported.", hint=hint)
    if found := _UNKNOWN_VERSION.search(str(error)):
        return Unsupported(f"{table} is of format version {found[1] or found[2]}, which is not supported.", hint=hint)
    return None


def _is_sql(error: Exception, *names: str) -> bool:
    return _is(error, "sqlalchemy.exc", names)


def _is_http(error: Exception, *names: str) -> bool:
    """Whether it is an exception of requests, all of which are OSErrors."""
    return _is(error, "requests.exceptions", names)


def _is(error: Exception, module: str, names: Sequence[str]) -> bool:
    """Compare classes by name, so that no library is imported for an error that it cannot have raised."""
    return any(kind.__module__ == module and kind.__name__ in names for kind in type(error).__mro__)


def _missing(error: Exception, catalog: str, what: str, said: str) -> TidybergError | None:
    if isinstance(error, iceberg.NoSuchIcebergTableError):
        return UnknownTable(f"{what or said} in catalog {catalog!r} is not an Iceberg table.")
    if isinstance(error, iceberg.NoSuchTableError | iceberg.NoSuchIdentifierError):
        return UnknownTable(f"There is no table {what} in catalog {catalog!r}." if what else said)
    if isinstance(error, iceberg.NoSuchNamespaceError):
        return UnknownNamespace(f"There is no namespace {what} in catalog {catalog!r}." if what else said)
    return None


def _unreachable(catalog: str, error: Exception, said: str) -> TidybergError:
    if _is_http(error, "Timeout"):
        said = "it did not answer in time"
    elif _is_http(error, "ConnectionError"):
        said = "no connection to its address could be made"
    elif _is_sql(error, "DBAPIError"):
        said = redact_text(_first_line(str(getattr(error, "orig", said))))
    elif _is_http(error, "JSONDecodeError"):
        said = "its answer is not JSON"
    return CatalogUnreachable(
        f"Catalog {catalog!r} cannot be reached: {said}.", hint="Check its uri, and that it is running."
    )


def _storage(error: OSError, what: str, said: str) -> TidybergError:
    if isinstance(error, FileNotFoundError):
        return DamagedFile(f"A metadata file of {what} is missing: {said}")
    if isinstance(error, PermissionError):
        return AccessDenied(f"Storage refused access to {what}: {said}")
    return StorageError(f"Storage of {what} failed: {said}", hint="Try again; check the path, room and network.")


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0].strip() if text.strip() else ""
