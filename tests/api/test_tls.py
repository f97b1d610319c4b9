"""The service with a TLS certificate."""

import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import ValidationError

from tidyberg.api.app import create_app
from tidyberg.api.server import ApiServer, listen
from tidyberg.errors import ConfigurationError
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server
from tidyberg.settings.tls import tls_arguments

Pair = tuple[Path, Path]


def make_pair(directory: Path, name: str, *, password: bytes | None = None) -> Pair:
    """Returns a self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    paths = directory / f"{name}.crt", directory / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))
    return paths


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path, "server")


def ask(service: Service, server: Server, verify: ssl.SSLContext) -> httpx.Response:
    socket = listen(server)
    api = ApiServer(create_app(service, server=server), **tls_arguments(server))
    thread = threading.Thread(target=api.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        while not api.started:
            time.sleep(0.005)
        return httpx.get(f"https://127.0.0.1:{socket.getsockname()[1]}/health", verify=verify)
    finally:
        api.should_exit = True
        thread.join(30)


def test_service_with_a_certificate_accepts_only_tls_and_sends_hsts(service: Service, pair: Pair) -> None:
    trusting = ssl.create_default_context(cafile=str(pair[0]))
    answer = ask(service, Server(port=0, tls_cert=pair[0], tls_key=pair[1]), trusting)
    assert answer.status_code == 200
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=")


def test_client_certificates_are_required_if_configured(service: Service, pair: Pair, tmp_path: Path) -> None:
    client = make_pair(tmp_path, "client")
    server = Server(port=0, tls_cert=pair[0], tls_key=pair[1], tls_client_ca=client[0])
    trusting = ssl.create_default_context(cafile=str(pair[0]))
    with pytest.raises(httpx.TransportError):
        ask(service, server, trusting)
    trusting.load_cert_chain(*client)
    assert ask(service, server, trusting).status_code == 200


def test_without_a_certificate_there_are_no_tls_arguments() -> None:
    assert tls_arguments(Server()) == {}


@pytest.mark.parametrize(
    ("spoil", "reported"),
    [
        (lambda certificate, key: certificate.unlink(), "tls_cert names .*not a file"),
        (lambda certificate, key: key.unlink(), "tls_key names .*not a file"),
        (lambda certificate, key: certificate.write_text("nothing"), "cannot be used"),
        (lambda certificate, key: key.write_text("nothing"), "cannot be used"),
        (lambda certificate, key: make_pair(key.parent, "other")[1].rename(key), "cannot be used"),
        (lambda certificate, key: make_pair(key.parent, "server", password=b"hunter2"), "cannot be used"),
    ],
)
def test_unusable_tls_files_are_named(pair: Pair, spoil: Callable[[Path, Path], object], reported: str) -> None:
    spoil(*pair)
    with pytest.raises(ConfigurationError, match=reported):
        tls_arguments(Server(tls_cert=pair[0], tls_key=pair[1]))


def test_a_certificate_needs_its_key() -> None:
    for given in ({"tls_cert": "a"}, {"tls_key": "a"}, {"tls_client_ca": "a"}):
        with pytest.raises(ValidationError, match="tls_cert and tls_key"):
            Server.model_validate(given)
