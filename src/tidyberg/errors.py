"""The error tree. Every error has a stable code, a message with a hint, an HTTP status and an exit code.

Every error class inherits from exactly one of `Terminal` and `Transient`, so the type says whether a retry can help.
"""

from collections.abc import Mapping
from typing import ClassVar


class TidybergError(Exception):
    """The base of all errors that tidyberg raises on purpose. Raise a subclass of `Terminal` or `Transient` instead."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 5

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class Terminal(TidybergError):
    """A retry does not help: somebody has to change something first."""


class Transient(TidybergError):
    """The same call may succeed later, so the service retries the job."""

    http_status = 503


class InternalError(Terminal):
    """A defect of tidyberg."""


class BadInput(Terminal):
    """The caller's input is wrong. Nothing was changed."""

    code = "bad-input"
    http_status = 422
    exit_code = 2


class ConfigurationError(BadInput):
    """The settings are wrong."""

    code = "configuration"


class UnknownCatalog(BadInput):
    code = "unknown-catalog"
    http_status = 404


class UnknownNamespace(BadInput):
    code = "unknown-namespace"
    http_status = 404


class UnknownTable(BadInput):
    code = "unknown-table"
    http_status = 404


class TableExists(BadInput):
    """A table of that name exists already."""

    code = "table-exists"
    http_status = 409


class UnknownReference(BadInput):
    """The branch does not exist, or the name belongs to a tag."""

    code = "unknown-reference"


class BadPredicate(BadInput):
    code = "bad-predicate"


class BadSortOrder(BadInput):
    """The order or curve that a rewrite should follow does not fit the table."""

    code = "bad-sort-order"


class BadQuery(BadInput):
    """The SQL of a query is wrong, or it does what a query may not do."""

    code = "bad-query"


class QueryLimit(BadInput):
    """A query needs more time or memory than it may use."""

    code = "query-limit"


class BadPlan(BadInput):
    """The plan file is damaged, was edited, or comes from a newer version."""

    code = "bad-plan"


class SharedFiles(BadInput):
    """Another table has files in the location of the table, so unreferenced files may be the other table's."""

    code = "shared-location"


class UnknownJob(BadInput):
    code = "unknown-job"
    http_status = 404


class UnknownPlan(BadInput):
    code = "unknown-plan"
    http_status = 404


class UnknownSchedule(BadInput):
    code = "unknown-schedule"
    http_status = 404


class UnknownPause(BadInput):
    code = "not-paused"
    http_status = 404


class IdempotencyMismatch(BadInput):
    """The idempotency key was used before, for a different request."""

    code = "idempotency-mismatch"
    http_status = 422


class NotEnabled(BadInput):
    """The settings do not switch this part of the service on."""

    code = "not-enabled"
    http_status = 404


class JobFailed(Terminal):
    """A job that somebody waited for has failed, or was cancelled."""

    code = "job-failed"


class NotAuthenticated(Terminal):
    """The request has no credential, or its credential is not valid."""

    code = "not-authenticated"
    http_status = 401


class IdentityProviderDown(Transient):
    """The identity provider does not answer, so a token cannot be checked now."""

    code = "identity-provider-down"


class QuotaExceeded(Transient):
    """The tenant or the service has reached a limit."""

    code = "quota-exceeded"
    http_status = 429


class StalePlan(Terminal):
    """The table has changed since the plan was made, and none of its groups can be applied."""

    code = "stale-plan"
    http_status = 409
    exit_code = 4


class Conflict(Transient):
    """Another writer or another job was first."""

    code = "conflict"
    http_status = 409
    exit_code = 4


class GroupsConflict(Conflict):
    """Other writers changed the files of every group of a commit."""

    def __init__(self, message: str, *, hint: str | None = None, reasons: Mapping[int, str]) -> None:
        super().__init__(message, hint=hint)
        self.reasons = reasons  # by group id


class TableBusy(Conflict):
    """Another tidyberg job holds the lease of the table."""

    code = "table-busy"


class TablePaused(Conflict):
    """Somebody paused the table, so no job may run on it now."""

    code = "table-paused"


class TableReplaced(Conflict):
    """The table was dropped, or dropped and created again, while the job ran."""

    code = "table-replaced"


class Unsupported(Terminal):
    """The table uses a feature that tidyberg does not support."""

    code = "unsupported"
    http_status = 422


class AccessDenied(Terminal):
    code = "access-denied"
    http_status = 403


class CatalogUnreachable(Transient):
    code = "catalog-unreachable"


class ServiceUnreachable(Transient):
    """The client gets no answer from a tidyberg service."""

    code = "service-unreachable"


class StorageError(Transient):
    """Storage rejected or lost a request, or it is full."""

    code = "storage"


class CredentialsExpired(StorageError):
    """Credentials that a catalog vended expired while they were in use. The next run gets new ones."""

    code = "credentials-expired"


class StoreUnreachable(Transient):
    """The job store does not answer. Its records are not lost."""

    code = "store-unreachable"


class DamagedFile(Terminal):
    """A data or metadata file is missing or truncated, or it does not match its manifest entry."""

    code = "damaged-file"


class EngineError(Transient):
    """Spark or the inline engine failed to run a group."""

    code = "engine"
    http_status = 500


class OutOfTime(Transient):
    """The time limit of a function ended before all groups were rewritten. The next run does the rest."""

    code = "out-of-time"

    def __init__(self, message: str, *, hint: str | None = None, unfinished: int, too_large: int) -> None:
        super().__init__(message, hint=hint)
        self.unfinished = unfinished  # tasks
        self.too_large = too_large  # the unfinished tasks for which the whole time limit is not enough


class GivenUp(Terminal):
    """The processes that ran the job died too many times."""

    code = "given-up"


class TooManyOutputs(Terminal):
    """A job would write more files than its limit or its plan allows."""

    code = "too-many-outputs"


class VerificationFailed(Terminal):
    """The outputs do not hold the same rows as the inputs. Nothing was committed."""

    code = "verification-failed"


class CommitStateUnknown(Transient):
    """Neither the catalog nor the table shows whether the commit succeeded.

    The next attempt looks for the commit before it starts [I7].
    """

    code = "commit-state-unknown"
    http_status = 500


class Cancelled(Terminal):
    """Somebody cancelled the job."""

    code = "cancelled"
    http_status = 409
