"""One replica of a service in a process of its own, to be killed, stopped and continued. Run as a module: settings."""

import json
import signal
import sys
import threading

from tidyberg.app import build_service
from tidyberg.settings.settings import Settings


def serve(settings: str) -> None:
    """Until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    service = build_service(Settings.model_validate(json.loads(settings)))
    service.start()
    while not ended.wait(0.2):
        pass  # a handler runs in this thread only, and a signal that another one gets does not wake it
    service.stop()


if __name__ == "__main__":
    serve(sys.argv[1])
