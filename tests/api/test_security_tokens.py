"""Tokens of an identity provider need a valid signature, audience and lifetime."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import RSAAlgorithm

from tests.api.provider import EC_KEY, ED_KEY, OTHER_RSA_KEY, RSA_KEY, Provider, public
from tidyberg.api.oidc import TokenVerifier
from tidyberg.errors import AccessDenied, IdentityProviderDown, NotAuthenticated
from tidyberg.model.principal import Principal, Role
from tidyberg.settings.access import Oidc


@pytest.fixture(scope="module")
def shared() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.close()


def checker(provider: Provider, tenants: frozenset[str] = frozenset(), **more: Any) -> TokenVerifier:
    given = {"issuer": provider.issuer, "audience": "tidyberg", "algorithms": ["RS256", "ES256", "EdDSA"], **more}
    return TokenVerifier(Oidc.model_validate(given), tenants)


def principal(provider: Provider, token: str, **more: Any) -> Principal:
    return asyncio.run(checker(provider, **more).principal(token))


@pytest.mark.parametrize(
    ("key", "alg", "kid"), [(RSA_KEY, "RS256", "rsa"), (EC_KEY, "ES256", "ec"), (ED_KEY, "EdDSA", "ed")]
)
def test_valid_token_identifies_the_principal(shared: Provider, key: Any, alg: str, kid: str) -> None:
    token = shared.token(key, alg=alg, kid=kid, roles=["viewer", "operator", "unknown"])
    assert principal(shared, token) == Principal("oidc:alice", Role.OPERATOR)


def test_small_clock_differences_are_accepted(shared: Provider) -> None:
    now = int(time.time())
    assert principal(shared, shared.token(exp=now - 5, nbf=now + 5, iat=now + 5)).name == "oidc:alice"


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"exp": 1}, "has expired"),
        ({"exp": int(time.time()) - 40}, "has expired"),
        ({"exp": None}, "must have the claims"),
        ({"exp": "soon"}, "not valid"),
        ({"nbf": int(time.time()) + 3600}, "not valid yet"),
        ({"iat": int(time.time()) + 3600}, "not valid yet"),
        ({"aud": "other"}, "another audience"),
        ({"aud": ["a", "b"]}, "another audience"),
        ({"aud": None}, r"must have the claims|another audience"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": None}, "must have the claims"),
        ({"sub": None}, "whose it is"),
        ({"sub": ""}, "whose it is"),
        ({"sub": "a" * 201}, "whose it is"),
        ({"sub": "a\nb"}, "whose it is"),
    ],
)
def test_token_must_be_valid_for_this_service_now(shared: Provider, changes: dict[str, Any], reported: str) -> None:
    with pytest.raises(NotAuthenticated, match=reported):
        principal(shared, shared.token(**changes))


def _segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _unsigned(provider: Provider, alg: str) -> str:
    return f"{_segment({'alg': alg, 'kid': 'rsa', 'typ': 'JWT'})}.{_segment(provider.claims(roles=['admin']))}."


def _signed_with_the_public_key(provider: Provider) -> str:
    """The classic confusion: the public key is used as the secret of HS256."""
    pem = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    signed = f"{_segment({'alg': 'HS256', 'kid': 'rsa', 'typ': 'JWT'})}.{_segment(provider.claims(roles=['admin']))}"
    digest = hmac.new(pem, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _tampered(provider: Provider) -> str:
    head, _, signature = provider.token().split(".")
    return f"{head}.{_segment(provider.claims(roles=['admin']))}.{signature}"


@pytest.mark.parametrize(
    "forge",
    [
        lambda provider: _unsigned(provider, "none"),
        lambda provider: _unsigned(provider, "None"),
        lambda provider: _unsigned(provider, "RS256"),
        _signed_with_the_public_key,
        _tampered,
        lambda provider: provider.token(OTHER_RSA_KEY),
        lambda provider: provider.token(OTHER_RSA_KEY, header={"jwk": public(OTHER_RSA_KEY, "rsa")}),
        lambda provider: provider.token(OTHER_RSA_KEY, header={"jku": "http://127.0.0.1:9/keys"}),
        lambda provider: provider.token(EC_KEY, alg="ES256", kid="rsa"),
        lambda provider: provider.token(alg="RS512"),
        lambda provider: provider.token(header={"crit": ["exp"], "exp": 1}),
        lambda provider: provider.token(header={"crit": []}),
        lambda provider: provider.token(kid=None, header={"kid": "rsa\x00"}),
        lambda provider: provider.token().rsplit(".", 1)[0],
        lambda provider: provider.token() + "x",
        lambda provider: "a.b.c",
        lambda provider: "....",
        lambda provider: "",
        lambda provider: "é.é.é",
        lambda provider: _segment({"alg": ["RS256"]}) + ".e30.",
        lambda provider: _segment({"alg": "RS256", "kid": {"a": 1}}) + ".e30.",
        lambda provider: base64.urlsafe_b64encode(b"[" * 5000).decode() + ".e30.",
        lambda provider: "a" * 20_000,
        lambda provider: provider.token(roles=["x" * 20_000]),
    ],
)  # fmt: skip
def test_forged_token_is_refused_without_a_reason(shared: Provider, forge: Any) -> None:
    token = forge(shared)
    with pytest.raises(NotAuthenticated, match=r"not valid|too long") as caught:
        principal(shared, token)
    assert len(token) < 8 or token not in str(caught.value)


def test_token_without_key_id_needs_exactly_one_matching_key(provider: Provider) -> None:
    token = provider.token(kid=None)
    assert principal(provider, token).name == "oidc:alice"
    provider.keys.append(public(OTHER_RSA_KEY, "second"))
    with pytest.raises(NotAuthenticated):
        principal(provider, token)


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "oct", "k": base64.urlsafe_b64encode(b"s" * 32).decode(), "kid": "rsa", "alg": "RS256"},
        {**public(RSA_KEY, "rsa"), "use": "enc"},
        {**public(RSA_KEY, "rsa"), "alg": "RS512"},
        {**public(RSA_KEY, "rsa"), "n": "!!!"},
        {"kty": "RSA", "kid": "rsa"},
        {**json.loads(RSAAlgorithm.to_jwk(RSA_KEY)), "kid": "rsa"},  # private: every reader could sign
        "rsa",
        None,
    ],
)
def test_keys_for_other_uses_are_ignored(provider: Provider, key: Any) -> None:
    provider.keys = [key, public(EC_KEY, "ec")]
    with pytest.raises(NotAuthenticated):
        principal(provider, provider.token())
    assert principal(provider, provider.token(EC_KEY, alg="ES256", kid="ec")).name == "oidc:alice"


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
def test_weak_keys_are_refused(provider: Provider) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    other_curve = ec.generate_private_key(ec.SECP384R1())
    provider.keys = [public(weak, "weak"), public(other_curve, "p384")]
    with pytest.raises(NotAuthenticated):
        principal(provider, provider.token(weak, kid="weak"))
    with pytest.raises(NotAuthenticated):
        principal(provider, provider.token(other_curve, alg="ES384", kid="p384"))


def test_settings_name_the_role_claim(shared: Provider) -> None:
    def role(claim: str, **claims: Any) -> Role:
        mapping = {"role_claim": claim, "roles": {"lake-admins": "admin", "users": "viewer", "ops": "operator"}}
        return principal(shared, shared.token(**claims), **mapping).role

    assert role("groups", groups=["users", "lake-admins"]) is Role.ADMIN
    assert role("realm_access.roles", realm_access={"roles": ["ops"]}) is Role.OPERATOR
    assert role("https://example.com/roles", **{"https://example.com/roles": ["users"]}) is Role.VIEWER
    assert role("scope", scope="openid users") is Role.VIEWER
    for groups in ([], ["admin"], "lake-admins2", None, {"lake-admins": 1}, 5, [["lake-admins"]], [{"x": 1}]):
        with pytest.raises(AccessDenied, match="no role"):
            role("groups", groups=groups)


def test_tenant_of_the_token_must_be_known(shared: Provider) -> None:
    def tenant(value: Any, role: str = "operator") -> str:
        token = shared.token(tenant=value, roles=[role])
        return principal(shared, token, tenant_claim="tenant", tenants=frozenset({"sales", "finance"})).tenant

    assert tenant("sales") == "sales"
    assert tenant(None, "admin") == "default"
    for value in ("nowhere", "*", "", None, ["sales"], {"sales": 1}, 7):
        with pytest.raises(AccessDenied, match="no known tenant"):
            tenant(value)
    with pytest.raises(AccessDenied):
        tenant("nowhere", "admin")


def test_keys_of_the_provider_are_cached(provider: Provider) -> None:
    async def many() -> None:
        tokens = checker(provider)
        await asyncio.gather(*(tokens.principal(provider.token()) for _ in range(50)))
        await tokens.principal(provider.token())

    asyncio.run(many())
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]


def test_keys_can_be_read_without_discovery(provider: Provider) -> None:
    assert principal(provider, provider.token(), jwks_uri=f"{provider.issuer}/elsewhere").name == "oidc:alice"
    assert provider.asked == ["/elsewhere"]


def test_bad_tokens_do_not_cause_repeated_key_requests(provider: Provider) -> None:
    async def many() -> None:
        tokens = checker(provider, jwks_uri=f"{provider.issuer}/keys")
        for number in range(200):
            with pytest.raises(NotAuthenticated):
                await tokens.principal(provider.token(OTHER_RSA_KEY, kid=f"k{number}"))

    asyncio.run(many())
    assert len(provider.asked) == 1


def test_new_key_is_found_after_the_refresh_interval(provider: Provider) -> None:
    async def rotate() -> None:
        tokens = checker(provider, jwks_uri=f"{provider.issuer}/keys", refresh_seconds=0.2)
        await tokens.principal(provider.token())
        provider.keys = [public(OTHER_RSA_KEY, "new")]
        new = provider.token(OTHER_RSA_KEY, kid="new")
        with pytest.raises(NotAuthenticated):
            await tokens.principal(new)
        await asyncio.sleep(0.25)
        assert (await tokens.principal(new)).name == "oidc:alice"
        with pytest.raises(NotAuthenticated):  # the former key is withdrawn
            await tokens.principal(provider.token())

    asyncio.run(rotate())


def test_old_keys_are_refreshed_in_the_background(provider: Provider) -> None:
    async def renew() -> None:
        tokens = checker(provider, jwks_uri=f"{provider.issuer}/keys", refresh_seconds=0.05, cache_seconds=0.1)
        await tokens.principal(provider.token())
        provider.keys = [public(OTHER_RSA_KEY, "new")]
        await asyncio.sleep(0.15)
        await tokens.principal(provider.token())  # uses the known key while the refresh runs
        while len(provider.asked) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        with pytest.raises(NotAuthenticated):
            await tokens.principal(provider.token())

    asyncio.run(renew())


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"{}", 500),
        (b"{}", 302),
        (b"not json", 200),
        (b"[]", 200),
        (b'{"keys": []}', 200),
        (b'{"keys": 5}', 200),
        (b'{"issuer": "https://evil.example", "jwks_uri": "http://127.0.0.1:9/"}', 200),
        (b"[" * 100_000, 200),
        (b"x" * (2 * 1024 * 1024), 200),
    ],
)
def test_failing_provider_makes_the_service_unavailable_not_open(
    provider: Provider, answer: bytes, status: int
) -> None:
    provider.answer, provider.status = (lambda _: answer), status
    with pytest.raises(IdentityProviderDown) as caught:
        principal(provider, provider.token())
    assert caught.value.http_status == 503


def test_discovery_refuses_keys_over_plain_http(provider: Provider) -> None:
    reported = {"issuer": provider.issuer, "jwks_uri": "http://keys.example.com/"}
    provider.answer = lambda _: json.dumps(reported).encode()
    with pytest.raises(IdentityProviderDown, match="https://"):
        principal(provider, provider.token())


def test_discovery_of_another_issuer_is_refused(provider: Provider) -> None:
    usual = provider.answer
    reported = {"issuer": "https://evil.example", "jwks_uri": f"{provider.issuer}/keys"}
    provider.answer = lambda path: json.dumps(reported).encode() if "well-known" in path else usual(path)
    with pytest.raises(IdentityProviderDown, match="another issuer"):
        principal(provider, provider.token())


def test_known_keys_stay_valid_while_the_provider_is_down(provider: Provider) -> None:
    async def outage() -> None:
        tokens = checker(provider, jwks_uri=f"{provider.issuer}/keys", refresh_seconds=0.02, cache_seconds=0.05)
        await tokens.principal(provider.token())
        provider.status = 500
        for _ in range(5):
            await asyncio.sleep(0.05)
            assert (await tokens.principal(provider.token())).name == "oidc:alice"
        await asyncio.sleep(0.05)
        with pytest.raises(IdentityProviderDown):
            await tokens.principal(provider.token(OTHER_RSA_KEY, kid="unknown"))

    asyncio.run(outage())


def test_provider_outage_is_not_reported_as_a_bad_token(provider: Provider) -> None:
    def slowly(_: str) -> bytes:
        time.sleep(0.5)
        return b"{}"

    provider.answer = slowly
    started = time.monotonic()
    with pytest.raises(IdentityProviderDown):
        principal(provider, provider.token(), timeout_seconds=0.1)
    assert time.monotonic() - started < 5
    gone = Provider()
    token = gone.token()
    gone.close()
    with pytest.raises(IdentityProviderDown):
        principal(gone, token)
