"""Implements `tidyberg invoke`: the AWS Lambda function on this machine."""

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from tidyberg.api.server import listen
from tidyberg.cli.as_json import print_json
from tidyberg.cli.session import standard_error
from tidyberg.errors import BadInput, ConfigurationError
from tidyberg.serverless.events import parse_object
from tidyberg.serverless.function import Function
from tidyberg.serverless.limits import MEMORY_VARIABLE
from tidyberg.serverless.local import PATH, LocalFunction, create_app
from tidyberg.settings.access import is_loopback
from tidyberg.settings.load import CONFIG_VARIABLE
from tidyberg.settings.serving import Server


@dataclass(frozen=True)
class InvokeFlags:
    host: str
    port: int
    timeout_seconds: float
    memory_mb: int
    at_once: int
    insecure: bool


def run(event: Path | None, flags: InvokeFlags, config: Path | None) -> int:
    """Invoke the function once, or serve it. Returns an exit code."""
    environ = {**os.environ, MEMORY_VARIABLE: str(flags.memory_mb)}
    if config is not None:
        environ[CONFIG_VARIABLE] = str(config)
    if event is None and not flags.insecure and not is_loopback(flags.host):
        raise ConfigurationError(
            f"{flags.host} can be reached from other machines, and the endpoint checks no access.",
            hint="Listen on 127.0.0.1, or accept the risk with --insecure.",
        )
    document = None if event is None else parse_object(_read(event), str(event))
    made = Function.of_environment(environ)
    with made.control:
        function = LocalFunction(made, flags.timeout_seconds, flags.memory_mb, flags.at_once)
        if event is None:
            _serve(function, flags)
            return 0
        succeeded, answer = function.invoke(document)
    print_json(answer)
    return 0 if succeeded else 5


def _read(event: Path) -> bytes:
    if str(event) == "-":
        return sys.stdin.buffer.read()
    try:
        return event.read_bytes()
    except OSError as error:
        raise BadInput(f"{event} cannot be read: {error.strerror}.", hint="Give a file with a JSON object.") from None


def _serve(function: LocalFunction, flags: InvokeFlags) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    settings: dict[str, Any] = {"log_level": "warning", "lifespan": "off", "server_header": False}
    with listen(Server(host=flags.host, port=flags.port)) as socket:
        server = uvicorn.Server(uvicorn.Config(create_app(function), **settings))
        host = f"[{flags.host}]" if ":" in flags.host else flags.host
        address = f"http://{host}:{socket.getsockname()[1]}{PATH.format(name='function')}"
        standard_error().print(f"listening on {address}", markup=False, soft_wrap=True)
        server.run(sockets=[socket])
