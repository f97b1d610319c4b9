"""Repeats a step in its own thread, also after errors."""

import logging
import random
import threading
from collections.abc import Callable

from tidyberg.errors import TidybergError

log = logging.getLogger(__name__)


class BackgroundLoop:
    def __init__(self, name: str, step: Callable[[], object], every_seconds: float) -> None:
        self._name = name
        self._step = step
        self._every_seconds = every_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go, name=f"tidyberg-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Starts no new step, and waits up to `seconds` for the current one."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _go(self) -> None:
        while not self._stopped.is_set():
            try:
                self._step()
            except TidybergError as error:
                log.warning("%s: %s", self._name, error)
            except Exception:
                log.exception("%s failed unexpectedly", self._name)
            # Jitter, so that replicas that start together drift apart.
            self._stopped.wait(self._every_seconds * random.uniform(0.8, 1.2))  # noqa: S311
