"""Log formats of the service: one line per message, as text or JSON, with context fields and without secrets [I12]."""

import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO
from urllib.parse import quote, unquote

from tidyberg.redact import is_secret_key, redact_text, secrets_of
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.context import current_fields
from tidyberg.telemetry.log_rate_limit import LogRateLimit

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/@:]*:(?P<password>[^/@]*)@)?")
_OURS = ("tidyberg", "uvicorn")  # other libraries log only warnings
_ANSI = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m"}
_PLAIN = "\x1b[0m"
# Control characters are escaped, so that a message is one line. The lines of a traceback are indented.
_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {ord("\n"): "\\n", ord("\t"): "    "}
_VISIBLE_BELOW = _VISIBLE | {ord("\n"): "\n    "}


def set_up_logs(
    settings: Settings,
    *,
    log_format: Literal["console", "json"] | None = None,
    stream: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
) -> logging.Handler:
    """Sends all logs of this process, also those of uvicorn and libraries, to one handler."""
    secrets = known_secrets(settings, os.environ if environ is None else environ)
    handler = logging.StreamHandler(stream or sys.stderr)
    formatter = JsonLines if (log_format or settings.telemetry.log_format) == "json" else ConsoleLines
    handler.setFormatter(formatter(secrets, colours=_wants_colours(handler.stream)))
    handler.addFilter(LogRateLimit())
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in (*_OURS, "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    for name in _OURS:
        logging.getLogger(name).setLevel(settings.telemetry.log_level.upper())
    logging.captureWarnings(True)
    return handler


def known_secrets(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns every secret of this process, also in its quoted and URL-encoded forms."""
    of_settings = (secret for secret in secrets_of(settings) if not _is_open_address(secret))
    given = (*of_settings, *(value for name, value in environ.items() if is_secret_key(name)))
    found = {part for secret in given for part in (secret, *_secret_parts(secret))}
    spelled = {
        form
        for secret in found
        for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret, safe=""), quote(secret))
        if len(secret) >= 4
    }
    return tuple(sorted(spelled, key=len, reverse=True))  # longest first, because one may contain another


def _is_open_address(secret: str) -> bool:
    """Returns True for an address without a password. The settings treat it as a secret, but logs may show it."""
    return _ADDRESS.match(secret) is not None and redact_text(secret) == secret


def _secret_parts(secret: str) -> Iterator[str]:
    """Yields the password of an address, and the secret of `client:secret`, because libraries may print only these."""
    address = _ADDRESS.match(secret)
    if address is not None and address["password"]:
        yield address["password"]
        yield unquote(address["password"])
    elif address is None and ":" in secret:
        yield secret.partition(":")[2]


class _Lines(logging.Formatter):
    def __init__(self, secrets: Iterable[str] = (), *, colours: bool = False) -> None:
        super().__init__()
        self._secrets = tuple(secrets)
        self._colours = colours

    def _safe(self, text: str) -> str:
        return redact_text(text, self._secrets)

    def _traceback(self, record: logging.LogRecord) -> str | None:
        """Returns the traceback, if there is one."""
        if record.exc_info and record.exc_info[0] is not None:
            return self._safe(self.formatException(record.exc_info))
        return None


class ConsoleLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname:<7}"
        if self._colours and record.levelname in _ANSI:
            level = f"{_ANSI[record.levelname]}{level}{_PLAIN}"
        fields = " ".join(f"{name}={value}" for name, value in current_fields().items())
        message = self._safe(record.getMessage()).translate(_VISIBLE)
        line = f"{_time(record).strftime('%Y-%m-%d %H:%M:%S')} {level} {message}"
        if fields:
            line += f"  [{self._safe(fields).translate(_VISIBLE)}]"
        traceback = self._traceback(record)
        return line if traceback is None else f"{line}\n    {traceback.translate(_VISIBLE_BELOW)}"


class JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._safe(record.getMessage()),
        }
        document |= {name: self._safe(value) for name, value in current_fields().items()}
        if (traceback := self._traceback(record)) is not None:
            document["exception"] = traceback
        return json.dumps(document, ensure_ascii=False)


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _wants_colours(stream: TextIO) -> bool:
    return hasattr(stream, "isatty") and stream.isatty() and not os.environ.get("NO_COLOR")
