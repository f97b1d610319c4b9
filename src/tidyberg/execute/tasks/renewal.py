"""Renews temporary credentials that a catalog vends, before half of their lifetime is over."""

import threading
from collections.abc import Callable, Mapping

from tidyberg.storage.access import StorageAccess

# The property names of Iceberg's catalogs. Those of Azure end with the account.
_EXPIRES_AT_MS = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")


class RenewedAccess(StorageAccess):
    """Gives each task, or Spark job of tasks, credentials that are valid when it starts."""

    __slots__ = ("_due_ms", "_lock", "_now_ms", "_renew")

    def __init__(
        self, properties: Mapping[str, str], renew: Callable[[], Mapping[str, str]], now_ms: Callable[[], int]
    ) -> None:
        super().__init__(dict(properties))
        self._renew = renew
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._due_ms = self._next_due()

    def reveal(self) -> dict[str, str]:
        with self._lock:
            if self._due_ms is not None and self._now_ms() >= self._due_ms:
                try:
                    self._properties = dict(self._renew())
                except Exception:  # noqa: BLE001  # the old ones are good for as long again; then storage says so
                    return super().reveal()
                self._due_ms = self._next_due()
            return super().reveal()

    def __reduce__(self) -> tuple[type[StorageAccess], tuple[dict[str, str]]]:
        return (StorageAccess, (self.reveal(),))

    def _next_due(self) -> int | None:
        ends = [int(v) for name, v in self._properties.items() if name.startswith(_EXPIRES_AT_MS) and v.isdigit()]
        now = self._now_ms()
        return now + (min(ends) - now) // 2 if ends else None
