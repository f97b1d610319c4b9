"""The `tidyberg-operator` command: runs the operator, or prints the definitions of its resources."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import kopf
import yaml

from tidyberg.client import AsyncClient
from tidyberg.errors import BadInput, TidybergError
from tidyberg.operator.definitions import definitions
from tidyberg.operator.handlers import OperatorOptions, Policies
from tidyberg.operator.service import ScheduleService

_RETRIES = 1  # kopf tries again, and a policy that waits must not hold up others
_TIMEOUT_SECONDS = 30.0


def run() -> None:
    try:
        sys.exit(main(sys.argv[1:]))
    except TidybergError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    if asked.command == "crds":
        sys.stdout.write(yaml.safe_dump_all(definitions(), sort_keys=False))
        return 0
    registry = kopf.OperatorRegistry()
    options = OperatorOptions(asked.cluster, asked.every, asked.debt_every)
    service = ScheduleService(ServiceConnection(asked.server, asked.token_file))
    Policies(service, options).register(registry)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes a line for each request
    kopf.configure(log_format=kopf.LogFormat.JSON if asked.log_json else kopf.LogFormat.FULL)
    kopf.run(
        registry=registry,
        standalone=True,
        namespaces=asked.namespace,
        clusterwide=not asked.namespace,
        liveness_endpoint=f"http://0.0.0.0:{asked.probe_port}/healthz",
    )
    return 0


class ServiceConnection:
    """Opens a client of the service. The token is read each time, because Kubernetes replaces the file."""

    def __init__(self, server: str | None, token_file: Path | None) -> None:
        if not server:
            raise BadInput("The operator needs a service.", hint="Give --server, or set TIDYBERG_SERVER.")
        self._server = server
        self._token_file = token_file
        AsyncClient(server)  # an address with a mistake ends the operator at once

    def __call__(self) -> AsyncClient:
        return AsyncClient(self._server, token=self._token(), retries=_RETRIES, timeout_seconds=_TIMEOUT_SECONDS)

    def _token(self) -> str | None:
        if self._token_file is None:
            return os.environ.get("TIDYBERG_TOKEN")
        try:
            return self._token_file.read_text().strip()
        except OSError as error:
            raise BadInput(f"The token cannot be read: {error}.", hint="Check --token-file.") from None


def _parser() -> argparse.ArgumentParser:
    environ = os.environ
    parser = argparse.ArgumentParser(prog="tidyberg-operator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("crds", help="print the definitions of the custom resources")
    runs = commands.add_parser("run", help="keep the schedules of a service equal to the policies of the cluster")
    add = runs.add_argument
    add("--server", default=environ.get("TIDYBERG_SERVER"), help="address of the service; $TIDYBERG_SERVER by default")
    add("--token-file", type=Path, help="file with an API key; $TIDYBERG_TOKEN by default")
    add("--namespace", action="append", default=[], help="namespace to watch, may be repeated; all by default")
    add("--cluster", default="kubernetes", help="name of the cluster; differs between clusters that share a service")
    add("--every", type=float, default=60.0, help="seconds between two looks at a policy")
    add("--debt-every", type=float, default=600.0, help="seconds between two looks at its tables")
    add("--probe-port", type=int, default=8081, help="port of the liveness probe")
    add("--log-json", action="store_true", help="write logs as JSON")
    return parser
