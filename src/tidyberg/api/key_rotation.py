"""Reads API keys anew while the service runs: when the settings file changes, and on SIGHUP."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tidyberg.api.security import Authenticator
from tidyberg.errors import ConfigurationError
from tidyberg.settings.access import Access, check_tenants
from tidyberg.settings.settings import Settings

LOOK_SECONDS = 2.0

_log = logging.getLogger(__name__)
_Version = tuple[int, int, int] | None


@dataclass
class KeyRotation:
    """Only keys change. What else the file says counts from the next start on."""

    authenticator: Authenticator
    settings: Settings  # of the process
    load: Callable[[], Settings]
    path: Path | None  # the file that they come from
    _asked: threading.Event = field(default_factory=threading.Event)
    _seen: _Version = None

    def __post_init__(self) -> None:
        self._seen = self._version()

    def ask(self) -> None:
        """Look at the next opportunity, whether or not the file seems changed; a signal handler may call it."""
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
            _log.error("API keys stay as they are, because the settings cannot be read: %s", error)

    def _take(self, access: Access) -> None:
        check_tenants(access, self.settings.tenants)
        before = {key.name: key for key in self.authenticator.access.api_keys}
        after = {key.name: key for key in access.api_keys}
        if before == after:
            return
        if not after and self.settings.access.oidc is None:
            _log.error("API keys stay as they are: without any, nobody would have to say who they are.")
            return
        self.authenticator.take_keys(access.api_keys)
        changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
        words = {"added": after.keys() - before.keys(), "replaced": changed, "removed": before.keys() - after.keys()}
        said = "; ".join(f"{verb} {', '.join(sorted(names))}" for verb, names in words.items() if names)
        _log.warning("API keys were read anew: %s", said)

    def _version(self) -> _Version:
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except OSError:  # being replaced
            return self._seen
        return found.st_mtime_ns, found.st_size, found.st_ino
