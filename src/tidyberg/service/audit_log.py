"""Writes an audit entry for every call that changes something, also for refused calls."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tidyberg.errors import AccessDenied, QuotaExceeded, TidybergError
from tidyberg.model.principal import Principal
from tidyberg.model.submission import AuditEntry
from tidyberg.record.ledger import Ledger

MOST_CHARACTERS = 500


@dataclass
class AuditedAction:
    """The content of an audit entry. The call adds details as it learns them."""

    target: str
    tenant: str
    details: dict[str, Any]
    is_routine: bool = False  # one of many equal calls: only refusals and failures are recorded


@dataclass(frozen=True)
class AuditLog:
    ledger: Ledger
    now_ms: Callable[[], int]

    @contextmanager
    def acting(
        self, who: Principal, action: str, target: str, details: Mapping[str, Any] | None = None
    ) -> Iterator[AuditedAction]:
        act = AuditedAction(target, who.tenant, dict(details or {}))
        try:
            yield act
        except Exception as error:  # also unexpected errors: the attempt is recorded and the error raised
            denied = isinstance(error, AccessDenied | QuotaExceeded)
            act.details["error"] = error.code if isinstance(error, TidybergError) else TidybergError.code
            with suppress(TidybergError):  # the caller must see the first error, not this one
                self._append(who, action, act, "denied" if denied else "failed")
            raise
        if not act.is_routine:
            self._append(who, action, act, "allowed")

    def _append(self, who: Principal, action: str, act: AuditedAction, outcome: Any) -> None:
        target, name = _storable(act.target), _storable(who.name)
        self.ledger.append_audit(AuditEntry(0, self.now_ms(), name, act.tenant, action, target, outcome, act.details))


def _storable(text: str) -> str:
    """Shortens a text and escapes invalid characters, such as half a surrogate pair."""
    return text[:MOST_CHARACTERS].encode(errors="backslashreplace").decode()
