"""Runs one replica in its own process, with its settings as the argument."""

import json
import signal
import sys
import threading

from tidyberg.app import build_service
from tidyberg.settings.settings import Settings


def serve(settings: str) -> None:
    """Runs until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    service = build_service(Settings.model_validate(json.loads(settings)))
    service.start()
    while not ended.wait(0.2):
        pass  # handlers run only in this thread, and a signal to another thread does not wake it
    service.stop()


if __name__ == "__main__":
    serve(sys.argv[1])
