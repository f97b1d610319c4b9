"""Signatures are equal to those in Amazon's documentation for the same requests."""

from datetime import UTC, datetime

import pytest

from tidyberg.storage.s3.signing import EMPTY_PAYLOAD, Credentials, Query, encode_path, encode_query, sign

# "Signature calculations for the Authorization header: examples", Amazon S3 API reference.
EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
MOMENT = datetime(2013, 5, 24, tzinfo=UTC)
PUT_PAYLOAD = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "payload", "signature"),
    [
        (
            "GET",
            "/test.txt",
            [],
            {"Range": "bytes=0-9"},
            EMPTY_PAYLOAD,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test$file.text",
            [],
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            PUT_PAYLOAD,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/",
            [("lifecycle", "")],
            {},
            EMPTY_PAYLOAD,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET",
            "/",
            [("prefix", "J"), ("max-keys", "2")],
            {},
            EMPTY_PAYLOAD,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_signatures_are_those_of_amazons_examples(
    method: str, path: str, query: Query, headers: dict[str, str], payload: str, signature: str
) -> None:
    signed = sign(
        method,
        "examplebucket.s3.amazonaws.com",
        encode_path(path),
        query,
        headers,
        payload,
        credentials=EXAMPLE,
        region="us-east-1",
        now=MOMENT,
    )
    assert signed["authorization"].endswith(f"Signature={signature}")
    assert "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request," in signed["authorization"]


def test_a_session_token_is_sent_and_signed() -> None:
    temporary = Credentials("key", "secret", "token-of-the-session")
    signed = sign("GET", "h", "/", [], {}, EMPTY_PAYLOAD, credentials=temporary, region="r", now=MOMENT)
    assert signed["x-amz-security-token"] == "token-of-the-session"
    assert "x-amz-security-token" in signed["authorization"]


def test_credentials_are_not_printed() -> None:
    assert repr(EXAMPLE) == str(EXAMPLE) == "Credentials(***)"


def test_keys_are_encoded_byte_by_byte() -> None:
    assert encode_path("/b/day=1%2F2/a b+c~ä.parquet") == "/b/day%3D1%252F2/a%20b%2Bc~%C3%A4.parquet"
    assert encode_query([("b", "1/2"), ("a", "")]) == "a=&b=1%2F2"
