"""Checks the certificate of a service and passes it to uvicorn."""

import ssl
from pathlib import Path
from typing import Any

from tidyberg.errors import ConfigurationError
from tidyberg.settings.serving import Server


def tls_arguments(server: Server) -> dict[str, Any]:
    """Return the TLS arguments of uvicorn, if there is a certificate. Raises if a file is missing or not valid."""
    if server.tls_cert is None or server.tls_key is None:
        return {}
    certificate, key = _file("tls_cert", server.tls_cert), _file("tls_key", server.tls_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(
            certificate, key, password=""
        )  # a key with a password raises an error instead of a prompt
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"server.tls_cert {certificate} and server.tls_key {key} cannot be used: {_reason(error)}.",
            hint="Give a certificate and its private key without a password, both as PEM.",
        ) from None
    arguments: dict[str, Any] = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    if server.tls_client_ca is not None:
        authorities = _file("tls_client_ca", server.tls_client_ca)
        try:
            context.load_verify_locations(authorities)
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(
                f"server.tls_client_ca {authorities} cannot be used: {_reason(error)}.",
                hint="Give certificates of authorities as PEM.",
            ) from None
        arguments |= {"ssl_ca_certs": str(authorities), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return arguments


def _file(setting: str, path: Path) -> Path:
    path = path.expanduser()
    if not path.is_file():
        raise ConfigurationError(f"server.{setting} names {path}, which is not a file.")
    return path


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).rstrip(".")
