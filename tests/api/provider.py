"""An identity provider on a real socket. It publishes keys, signs tokens, counts requests and can fail."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()


def public(key: Any, kid: str | None, **more: Any) -> dict[str, Any]:
    """Returns the public key as a JWK."""
    kinds: dict[type, Any] = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    kind = next((kind for of, kind in kinds.items() if isinstance(key, of)), OKPAlgorithm)
    jwk = json.loads(kind.to_jwk(key.public_key()))
    return {**jwk, **({"kid": kid} if kid else {}), "use": "sig", **more}


class Provider:
    def __init__(self) -> None:
        self.keys: list[Any] = [public(RSA_KEY, "rsa"), public(EC_KEY, "ec"), public(ED_KEY, "ed")]
        self.asked: list[str] = []
        self.status = 200
        self.answer: Callable[[str], bytes] = self._usual
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Returns the claims of a valid token. None removes a claim."""
        now = int(time.time())
        usual = {
            "iss": self.issuer,
            "aud": "tidyberg",
            "sub": "alice",
            "exp": now + 300,
            "iat": now,
            "roles": ["viewer"],
        }
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def token(
        self, key: Any = RSA_KEY, *, alg: str = "RS256", kid: str | None = "rsa", header: Any = None, **changes: Any
    ) -> str:
        headers = {**({"kid": kid} if kid else {}), **(header or {})}
        return jwt.encode(self.claims(**changes), key, algorithm=alg, headers=headers)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _usual(self, path: str) -> bytes:
        if path == "/.well-known/openid-configuration":
            return json.dumps({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}).encode()
        return json.dumps({"keys": self.keys}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                content = provider.answer(self.path)
                self.send_response(provider.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(ConnectionError):  # the client may be gone
                    self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Logs nothing. Tests read `asked`."""

        return Handler
