"""The settings that decide who may use a service."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tidyberg.errors import ConfigurationError
from tidyberg.model.principal import Role
from tidyberg.model.table import TableRef
from tidyberg.redact import redact_text
from tidyberg.settings.access import AccessSettings, ApiKey, Oidc, Tenant, hash_key, is_loopback, new_key, why_not_open
from tidyberg.settings.load import load_settings
from tidyberg.settings.settings import Settings

SOME_HASH = hash_key("tdb_some")


def loaded(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "tidyberg.yaml"
    path.write_text(text)
    return load_settings(path, environ={})


def test_keys_are_long_and_never_the_same() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("tdb_") and len(key) >= 47 for key in keys)


SOME_KEY = "tdb_" + "k3y-" * 11  # of the form of a key; the same in every process that shares the tests


@pytest.mark.parametrize("pasted", [SOME_KEY, "hunter2", "sha256:abc", "md5:" + "0" * 64, 5, None])
def test_a_key_in_plain_text_is_refused_with_a_hint_and_not_quoted(pasted: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tidyberg key new") as caught:
        loaded(tmp_path, f"access: {{api_keys: [{{name: a, hash: {pasted}}}]}}")
    assert len(str(pasted)) < 5 or str(pasted) not in str(caught.value)


def test_a_key_has_the_role_viewer_by_default() -> None:
    assert ApiKey(name="a", hash=SOME_HASH).role is Role.VIEWER


def test_a_day_of_expiry_begins_in_utc(tmp_path: Path) -> None:
    settings = loaded(tmp_path, f"access: {{api_keys: [{{name: a, hash: {SOME_HASH}, expires: 2030-01-01}}]}}")
    expires = settings.access.api_keys[0].expires
    assert expires is not None
    assert expires.isoformat() == "2030-01-01T00:00:00+00:00"


@pytest.mark.parametrize("name", ["", "oidc:alice", "schedule:x", "a b", "local", "anonymous", "auto", "x" * 65, "a\n"])
def test_no_key_can_be_named_like_someone_else(name: str) -> None:
    with pytest.raises(ValidationError):
        ApiKey(name=name, hash=SOME_HASH)


@pytest.mark.parametrize("second", [{"name": "a", "hash": hash_key("other")}, {"name": "b", "hash": SOME_HASH}])
def test_keys_differ(second: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="the same"):
        AccessSettings.model_validate({"api_keys": [{"name": "a", "hash": SOME_HASH}, second]})


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "rs256", ""])
def test_only_signatures_with_public_keys_can_be_allowed(algorithm: str) -> None:
    with pytest.raises(ValidationError):
        Oidc.model_validate({"issuer": "https://i", "audience": "a", "algorithms": [algorithm]})


@pytest.mark.parametrize("field", ["issuer", "jwks_uri"])
@pytest.mark.parametrize("address", ["http://login.example.com", "ftp://x", "login.example.com", "https://u:p@x", ""])
def test_a_provider_address_without_https_or_with_a_password_is_refused(field: str, address: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Oidc.model_validate({"issuer": "https://i", "audience": "a", field: address})
    assert "u:p@" not in caught.value.errors()[0]["msg"]


def test_plain_http_is_fine_within_this_machine() -> None:
    assert Oidc(issuer="http://127.0.0.1:9", audience="a").issuer == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("", False), ("10.0.0.1", False), ("localhost.evil.example", False),
     ("127.0.0.1.nip.io", False), ("::ffff:10.0.0.1", False)],
)  # fmt: skip
def test_loopback_addresses_are_recognized(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_listening_for_other_machines_needs_authentication_or_insecure() -> None:
    nobody, keys = AccessSettings(), AccessSettings(api_keys=(ApiKey(name="a", hash=SOME_HASH),))
    assert why_not_open(nobody, "127.0.0.1", insecure=False) is None
    refusal = why_not_open(nobody, "0.0.0.0", insecure=False)
    assert refusal is not None
    assert "0.0.0.0" in refusal
    assert "tidyberg key new" in refusal
    assert "--insecure" in refusal
    assert why_not_open(nobody, "", insecure=False) is not None
    assert why_not_open(AccessSettings(anonymous_role="viewer"), "0.0.0.0", insecure=False) is not None
    assert why_not_open(nobody, "0.0.0.0", insecure=True) is None
    assert why_not_open(keys, "0.0.0.0", insecure=False) is None


def test_metrics_need_authentication_if_other_routes_do() -> None:
    keys = (ApiKey(name="a", hash=SOME_HASH),)
    assert AccessSettings().metrics_are_open
    assert not AccessSettings(api_keys=keys).metrics_are_open
    assert AccessSettings(api_keys=keys, open_metrics=True).metrics_are_open
    assert not AccessSettings(open_metrics=False).metrics_are_open


def test_tenants_of_keys_must_exist(tmp_path: Path) -> None:
    tenants = "tenants: {sales: {namespaces: [sales]}}\n"
    key = f"access: {{api_keys: [{{name: a, hash: {SOME_HASH}, role: viewer, tenant: %s}}]}}"
    assert loaded(tmp_path, tenants + key % "sales").tenants["sales"].namespaces == ("sales",)
    loaded(tmp_path, tenants + key % "'*'")
    with pytest.raises(ConfigurationError, match="'finance'"):
        loaded(tmp_path, tenants + key % "finance")
    with pytest.raises(ConfigurationError, match="needs a tenant"):
        loaded(tmp_path, tenants + key % "null")
    with pytest.raises(ConfigurationError, match="'sales'"):
        loaded(tmp_path, key % "sales")
    loaded(tmp_path, tenants + (key % "null").replace("viewer", "admin"))


def test_with_tenants_tokens_must_name_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tenant_claim"):
        loaded(tmp_path, "tenants: {a: {namespaces: [a]}}\naccess: {oidc: {issuer: https://i, audience: a}}")


def test_a_tenant_owns_what_both_its_catalogs_and_its_namespaces_say() -> None:
    tenant = Tenant(catalogs=("prod",), namespaces=("sales", "sales.*", "raw_*"))
    assert tenant.owns(TableRef("prod", ("sales",), "t"))
    assert tenant.owns(TableRef("prod", ("sales", "eu", "de"), "t"))
    assert tenant.owns(TableRef("prod", ("raw_x",), "t"))
    for other in (("lab", "sales"), ("prod", "salesforce"), ("prod", "Sales"), ("prod", "other.sales"), ("", "sales")):
        assert not tenant.owns(TableRef(other[0], tuple(other[1].split(".")), "t")), other
    assert Tenant(catalogs=("prod",)).owns(TableRef("prod", ("any",), "t"))
    assert Tenant(namespaces=("sales",)).owns(TableRef("anywhere", ("sales",), "t"))


def test_a_tenant_without_anything_of_its_own_is_refused() -> None:
    with pytest.raises(ValidationError, match="owns catalogs or namespaces"):
        Tenant(max_running=2)


def test_credentials_of_callers_are_masked_in_any_text() -> None:
    key = new_key()
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
    for secret in (key, token):
        assert secret[4:] not in redact_text(f"GET /x?k={secret} failed for {secret}.")
