"""Reloads API keys while the service runs: when the settings file changes, and on SIGHUP."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tidyberg.api.security import Authenticator
from tidyberg.errors import ConfigurationError
from tidyberg.settings.access import AccessSettings, check_tenants
from tidyberg.settings.settings import Settings

LOOK_SECONDS = 2.0

_log = logging.getLogger(__name__)
_Version = tuple[int, int, int] | None


@dataclass
class KeyRotation:
    """Reloads only the keys. Other changes in the file take effect at the next start."""

    authenticator: Authenticator
    settings: Settings  # as loaded at the start
    load: Callable[[], Settings]
    path: Path | None  # the settings file
    _asked: threading.Event = field(default_factory=threading.Event)
    _seen: _Version = None

    def __post_init__(self) -> None:
        self._seen = self._version()

    def ask(self) -> None:
        """Makes the next `look` reload the file even if it seems unchanged. Safe to call from a signal handler."""
        self._asked.set()

    def look(self) -> None:
        version = self._version()
        if not self._asked.is_set() and version == self._seen:
            return
        self._asked.clear()
        self._seen = version
        try:
            self._take(self.load().access)
        except (ConfigurationError, ValueError) as error:
            _log.error("API keys are unchanged, because the settings cannot be read: %s", error)

    def _take(self, access: AccessSettings) -> None:
        check_tenants(access, self.settings.tenants)
        before = {key.name: key for key in self.authenticator.access.api_keys}
        after = {key.name: key for key in access.api_keys}
        if before == after:
            return
        if not after and self.settings.access.oidc is None:
            _log.error("API keys are unchanged: without any key, the service would not require authentication.")
            return
        self.authenticator.take_keys(access.api_keys)
        changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
        words = {"added": after.keys() - before.keys(), "replaced": changed, "removed": before.keys() - after.keys()}
        summary = "; ".join(f"{verb} {', '.join(sorted(names))}" for verb, names in words.items() if names)
        _log.warning("API keys were reloaded: %s", summary)

    def _version(self) -> _Version:
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except OSError:  # the file is being replaced
            return self._seen
        return found.st_mtime_ns, found.st_size, found.st_ino
