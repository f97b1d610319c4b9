"""The error tree: every failure has a stable code, a message that says what to do, and an HTTP status."""

from collections.abc import Mapping
from typing import ClassVar


class TidybergError(Exception):
    """Base of all errors that tidyberg raises on purpose."""

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
    """Trying again will not help: say why and stop."""


class Transient(TidybergError):
    """The same call may go through later."""

    http_status = 503


class BadInput(Terminal):
    """Something the caller gave is wrong; nothing was changed."""

    code = "bad-input"
    http_status = 422
    exit_code = 2


class ConfigurationError(BadInput):
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


class UnknownReference(BadInput):
    """A branch that does not exist, or a tag where a branch is needed."""

    code = "unknown-reference"


class BadPredicate(BadInput):
    code = "bad-predicate"


class BadPlan(BadInput):
    """A plan file that is damaged, edited, or from a newer version."""

    code = "bad-plan"


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
    """An idempotency key that was used before, for something else."""

    code = "idempotency-mismatch"
    http_status = 422


class NotAuthenticated(Terminal):
    """No credential, or one that is not valid (any more)."""

    code = "not-authenticated"
    http_status = 401


class IdentityProviderDown(Transient):
    """Whether a token is genuine cannot be told now."""

    code = "identity-provider-down"


class QuotaExceeded(Transient):
    """A limit of the tenant or of the service is reached."""

    code = "quota-exceeded"
    http_status = 429


class StalePlan(TidybergError):
    """The table moved on since the plan was made and none of its groups can be applied."""

    code = "stale-plan"
    http_status = 409
    exit_code = 4


class Conflict(TidybergError):
    """Another writer or another job was there first."""

    code = "conflict"
    http_status = 409
    exit_code = 4


class GroupsConflict(Conflict):
    """Other writers changed every group of a commit."""

    def __init__(self, message: str, *, hint: str | None = None, reasons: Mapping[int, str]) -> None:
        super().__init__(message, hint=hint)
        self.reasons = reasons  # by group id


class TableBusy(Conflict):
    """Another tidyberg job holds the table."""

    code = "table-busy"


class TablePaused(Conflict):
    """Someone paused the table: it takes no jobs now."""

    code = "table-paused"


class TableReplaced(Conflict):
    """The table was dropped, or dropped and created anew, while the job ran."""

    code = "table-replaced"


class Unsupported(Terminal):
    """The table uses a feature that tidyberg refuses to touch."""

    code = "unsupported"
    http_status = 422


class AccessDenied(Terminal):
    code = "access-denied"
    http_status = 403


class CatalogUnreachable(Transient):
    code = "catalog-unreachable"


class ServiceUnreachable(Transient):
    """No tidyberg service answers a client."""

    code = "service-unreachable"


class StorageError(Transient):
    """Storage refused or lost a request, or has no room."""

    code = "storage"


class CredentialsExpired(StorageError):
    """Credentials that a catalog vended ran out while they were in use; the next run gets new ones."""

    code = "credentials-expired"


class StoreUnreachable(Transient):
    """The job store does not answer; what it has recorded is kept."""

    code = "store-unreachable"


class DamagedFile(Terminal):
    """A data or metadata file is missing, truncated or not what the manifest says."""

    code = "damaged-file"


class EngineError(TidybergError):
    """Spark (or the inline engine) failed to run a group."""

    code = "engine"


class GivenUp(Terminal):
    """A job whose processes died again and again."""

    code = "given-up"


class TooManyOutputs(Terminal):
    """A job would write more files than it may, or than its plan foresaw."""

    code = "too-many-outputs"


class VerificationFailed(Terminal):
    """Outputs do not hold the rows of their inputs: nothing was committed."""

    code = "verification-failed"


class CommitStateUnknown(TidybergError):
    """The catalog did not say whether the commit landed, and the table did not tell either."""

    code = "commit-state-unknown"


class Cancelled(TidybergError):
    code = "cancelled"
    http_status = 409
