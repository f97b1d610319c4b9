"""Iceberg's REST catalog server with its tables on an S3 server, set up by the variables of the compose file."""

from collections.abc import Mapping
from pathlib import Path

from tests.servers import rest
from tests.servers.jars import Module
from tests.servers.rest import RestServer

MODULES = (
    *rest.MODULES,
    Module("org.apache.iceberg", "iceberg-aws", rest.ICEBERG, transitive=False),
    Module("dev.failsafe", "failsafe", "3.3.2", transitive=False),
    Module("org.apache.iceberg", "iceberg-aws-bundle", rest.ICEBERG, transitive=False),
)


class RestServerOnS3(RestServer):
    modules = MODULES

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        super().__init__(directory)

    def _settings(self) -> dict[str, str]:
        return {**super()._settings(), **self._environ}
