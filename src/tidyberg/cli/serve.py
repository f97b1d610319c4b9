"""Implements `tidyberg serve`: the API and the workers in one process."""

import gc
import logging
import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyiceberg.io.pyarrow  # noqa: F401  # import now, because it takes seconds that the first submission would wait

from tidyberg.api.app import create_app
from tidyberg.api.key_rotation import LOOK_SECONDS, KeyRotation
from tidyberg.api.security import Authenticator
from tidyberg.api.server import ApiServer, listen
from tidyberg.app import build_service
from tidyberg.cli.session import Session, engine_label, standard_error
from tidyberg.errors import ConfigurationError
from tidyberg.redact import redact_text
from tidyberg.service.background_loop import BackgroundLoop
from tidyberg.service.service import Service
from tidyberg.settings.access import is_loopback, why_not_open
from tidyberg.settings.catalogs import known_catalogs
from tidyberg.settings.load import INSECURE_VARIABLE, find_config, load_settings
from tidyberg.settings.settings import Settings
from tidyberg.settings.tls import tls_arguments
from tidyberg.telemetry.logs import set_up_logs

_log = logging.getLogger(__name__)
_WARNING = "no authentication is configured: anyone who can reach this address can compact, cancel and schedule"
# Jobs compute in threads of this process, and each step of a request may wait this long for each of them. With
# Python's default, which is ten times as long, two jobs block all requests.
_SWITCH_SECONDS = 0.0005
_OBJECTS_BEFORE_COLLECTION = 50_000


@dataclass(frozen=True)
class ServeFlags:
    host: str | None
    port: int | None
    workers: int | None
    insecure: bool
    log_json: bool

    def applied_to(self, settings: Settings) -> Settings:
        server = {"host": self.host, "port": self.port}
        queue = {"workers": self.workers}
        telemetry = {"log_format": "json" if self.log_json else None}
        return settings.model_copy(
            update={
                "server": settings.server.model_copy(update=_given(server)),
                "queue": settings.queue.model_copy(update=_given(queue)),
                "telemetry": settings.telemetry.model_copy(update=_given(telemetry)),
            }
        )


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def run(session: Session, flags: ServeFlags) -> None:
    settings = flags.applied_to(session.settings)
    insecure = flags.insecure or os.environ.get(INSECURE_VARIABLE) == "1"
    if (why := why_not_open(settings.access, settings.server.host, insecure=insecure)) is not None:
        raise ConfigurationError(why)
    catalogs = sorted(known_catalogs(settings))
    if not catalogs:
        raise ConfigurationError("No catalog is configured.", hint="Set CATALOG_URI, or write a tidyberg.yaml.")
    tls = tls_arguments(settings.server)
    with ExitStack() as sockets:  # first, so that a port in use fails early
        socket = sockets.enter_context(listen(settings.server))
        probe_port = settings.server.probe_port
        probes = sockets.enter_context(listen(settings.server, probe_port)) if probe_port is not None else None
        set_up_logs(settings)
        sys.setswitchinterval(_SWITCH_SECONDS)
        service = build_service(settings)
        authenticator = Authenticator(settings)
        server = ApiServer(create_app(service, identify=authenticator), probes=probes, **tls)
        _rotate_keys(service, authenticator, settings, session.common.config)
        _spare_collector()
        service.start()
        try:
            _greet(settings, catalogs, socket.getsockname()[1])
            server.run(sockets=[socket])
            _log.info("stopping: running jobs finish or go back to the queue")
        finally:
            service.stop()
    _log.info("stopped")


def _rotate_keys(service: Service, authenticator: Authenticator, settings: Settings, config: Path | None) -> None:
    rotation = KeyRotation(authenticator, settings, lambda: load_settings(config), find_config(config, os.environ))
    service.loops.append(BackgroundLoop("keys", rotation.look, LOOK_SECONDS))
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: rotation.ask())


def _spare_collector() -> None:
    """Excludes imported objects from garbage collection, which otherwise blocked all requests for 0.2 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)


def _greet(settings: Settings, catalogs: list[str], port: int) -> None:
    scheme = "http" if settings.server.tls_cert is None else "https"
    address = f"{scheme}://{_authority(settings.server.host)}:{port}"
    if not settings.access.required and not is_loopback(settings.server.host):
        _log.warning(_WARNING)
    _log.info("listening on %s, API documentation at %s/docs", address, address)
    shown = ", ".join(catalogs), settings.queue.workers, engine_label(settings), _store(settings)
    _log.info("catalogs: %s; jobs at once: %d on %s; job store: %s", *shown)
    if settings.telemetry.log_format == "console":
        curl = "curl" if not settings.access.required else "curl -H 'Authorization: Bearer …'"
        json = "-H 'Content-Type: application/json' -d '{\"table\": \"namespace.table\"}'"
        for line in ("Try", f"  {curl} {address}/api/v1/tables", f"  {curl} -X POST {address}/api/v1/compact {json}"):
            standard_error().print(line, markup=False, soft_wrap=True)


def _authority(host: str) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"[{shown}]" if ":" in shown else shown


def _store(settings: Settings) -> str:
    """Returns the place of the job store, without a password [I12]."""
    url = settings.store.url
    return redact_text(url.get_secret_value()) if url is not None else str(settings.store.path)
