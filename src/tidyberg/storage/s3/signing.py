"""Signs S3 requests with AWS Signature Version 4, using only the standard library. Pure functions."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

EMPTY_PAYLOAD = hashlib.sha256(b"").hexdigest()

Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """AWS credentials. Their `repr` shows no secret [I12]."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return "Credentials(***)"


def sign(
    method: str,
    host: str,
    path: str,
    query: Query,
    headers: Mapping[str, str],
    payload: str,
    *,
    credentials: Credentials,
    region: str,
    now: datetime,
) -> dict[str, str]:
    """Returns the given headers with the ones that sign the request.

    `path` must be encoded. `payload` is the SHA-256 of the body, or UNSIGNED_PAYLOAD.
    """
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    signed |= {"host": host, "x-amz-date": moment, "x-amz-content-sha256": payload}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            method,
            path,
            encode_query(query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            payload,
        ]
    )
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in (moment[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{credentials.access_key}/{scope}"
    authorization = f"AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={signature}"
    return signed | {"authorization": authorization}


def encode_path(path: str) -> str:
    """Percent-encodes every byte except unreserved characters and slashes."""
    return quote(path, safe="/-_.~")


def encode_query(query: Query) -> str:
    encoded = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query)
    return "&".join(f"{name}={value}" for name, value in encoded)
