"""I12: secrets never reach a repr, a dump or an error."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.errors import ConfigurationError, TidybergError
from tidyberg.redact import is_secret_key, redact, redact_text, seal, secrets_of, unseal
from tidyberg.settings.catalogs import open_catalog
from tidyberg.settings.load import load_settings
from tidyberg.settings.settings import Settings

SECRETS = """\
catalog:
  type: rest
  uri: http://user:hunter2@127.0.0.1:9
  token: hunter2-token
  credential: id:hunter2-credential
  s3.access-key-id: hunter2-key
  s3.secret-access-key: hunter2-secret
  properties: {adls.account-key: hunter2-account}
  auth: {type: oauth2, oauth2: {client_secret: hunter2-client}}
storage: {bucket: b, secret_access_key: hunter2-storage}
store: {url: "rediss://jobs:hunter2@hunter2@redis:6379/1?password=hunter2"}
spark:
  conf: {spark.hadoop.fs.s3a.secret.key: hunter2-spark}
"""


def test_no_secret_appears_in_a_repr_or_dump(tmp_path: Path) -> None:
    path = tmp_path / "tidyberg.yaml"
    path.write_text(SECRETS)
    settings = load_settings(path, environ={})
    for text in (repr(settings), str(settings), settings.model_dump_json(), repr(redact(settings.model_dump()))):
        assert "hunter2" not in text


def test_settings_survive_a_round_trip_through_plain_data(tmp_path: Path) -> None:
    path = tmp_path / "tidyberg.yaml"
    path.write_text(SECRETS)
    settings = load_settings(path, environ={})
    assert Settings.model_validate(settings.model_dump()) == settings


def test_the_catalog_still_gets_its_secrets(tmp_path: Path) -> None:
    path = tmp_path / "tidyberg.yaml"
    path.write_text(SECRETS)
    revealed = load_settings(path, environ={}).known_catalogs["default"].reveal()
    assert revealed["token"] == "hunter2-token"
    assert revealed["uri"] == "http://user:hunter2@127.0.0.1:9"
    assert revealed["adls.account-key"] == "hunter2-account"
    assert revealed["auth"]["oauth2"]["client_secret"] == "hunter2-client"


def test_an_error_of_the_catalog_does_not_quote_its_address_with_password(tmp_path: Path) -> None:
    path = tmp_path / "tidyberg.yaml"
    path.write_text(SECRETS.split("  credential")[0].replace("  token: hunter2-token\n", ""))
    with pytest.raises(TidybergError) as caught:
        open_catalog(load_settings(path, environ={}))
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    "text", ["catalog: {uri: http://x, token: [hunter2]}", "store: {url: 'http://:hunter2@redis'}"]
)
def test_a_bad_value_of_a_secret_is_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tidyberg.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, environ={})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("key", ["token", "credential", "s3.secret-access-key", "s3.access-key-id", "PASSWORD"])
def test_keys_of_secrets_are_known(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize("key", ["uri", "oauth2-server-uri", "token-refresh-enabled", "warehouse", "s3.region"])
def test_keys_beside_secrets_are_shown(key: str) -> None:
    assert not is_secret_key(key)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:pw@host/db", "postgresql://me:***@host/db"),
        ("GET https://h/x?sig=abc&y=1", "GET https://h/x?sig=***&y=1"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("http://host:8181/v1", "http://host:8181/v1"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_text_is_redacted_and_otherwise_left_alone(text: str, shown: str) -> None:
    assert redact_text(text) == shown


SECRET_VALUES = st.text("0123456789abcdef", min_size=12).map(lambda text: "x" + text)


@given(
    SECRET_VALUES,
    st.sampled_from(["token", "s3.secret-access-key", "adls.sas-token", "db.password"]),
    st.integers(0, 3),
)
def test_a_secret_is_sealed_at_any_depth_and_can_be_unsealed(secret: str, key: str, depth: int) -> None:
    data: dict[str, Any] = {"uri": "http://host", key: [secret] if depth == 3 else secret}
    for _ in range(depth):
        data = {"below": data, "items": [data]}
    sealed = seal(data)
    assert secret not in repr(sealed)
    assert secret in secrets_of(sealed)
    assert unseal(sealed) == data
    assert secret not in repr(redact(data))


def test_numbers_under_a_secret_key_are_secret_too() -> None:
    assert "123456" not in repr(seal({"s3.secret-access-key": 123456}))
    assert redact({"password": 123456}) == {"password": "***"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["a", "?", "&a", "?token", "Bearer ", "a://", "://u:p", "eyJ-", "eyJaaaaaaaa.", "tdb_", "@", "=&key"]
)
def test_a_hostile_text_is_redacted_in_one_pass(piece: str) -> None:
    redact_text(piece * (100_000 // len(piece)))


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("see http://u:p@ss@host/x?a=1", "see http://u:***@host/x?a=1"),
        ("http://h/?a=1&X-Amz-Signature=abc&b=2", "http://h/?a=1&X-Amz-Signature=***&b=2"),
        ("??token=abc 'x'", "??token=*** 'x'"),
        ("redis://:pass@host:6379/0", "redis://:***@host:6379/0"),
        ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
    ],
)
def test_secrets_in_addresses_are_masked(text: str, safe: str) -> None:
    assert redact_text(text) == safe
