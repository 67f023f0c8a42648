"""Signed tokens: which pass, and which forgeries do not."""

import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeySet, OctKey, OKPKey, RSAKey

from barnabas.security.token_validation import TokenError, TokenRules, TokenValidator

KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})
NOW_S = 1_800_000_000
NOW = NOW_S * 1000
CLAIMS = {
    "iss": "https://issuer",
    "aud": "kafka",
    "sub": "alice",
    "iat": NOW_S - 10,
    "exp": NOW_S + 60,
}
RULES = TokenRules("https://issuer", ("kafka", "registry"), required_claims=("iat",))


def token(claims: dict[str, Any], key: Any = KEY, **head: str) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one", **head}, claims, key)


def validator(rules: TokenRules = RULES, key: Key = KEY) -> TokenValidator:
    return TokenValidator(rules, KeySet([key]))  # pyright: ignore[reportArgumentType]


def changed(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}


def test_valid_token_names_its_subject_and_expiry() -> None:
    valid = validator().validate(token(CLAIMS), NOW)
    assert (valid.subject, valid.expires_at_ms) == ("alice", NOW + 60_000)
    assert valid.scopes == frozenset()


def test_subject_and_scope_may_be_in_other_claims() -> None:
    rules = TokenRules("https://issuer", (), subject_claim="email", scope_claim="scp")
    claims = changed(email=" a@example ", scp=["read", "write"])
    valid = validator(rules).validate(token(claims), NOW)
    assert (valid.subject, valid.scopes) == ("a@example", {"read", "write"})


def test_token_without_issuer_and_audience_passes_where_none_is_expected() -> None:
    claims = changed(iss=None, aud=None)
    assert validator(TokenRules(None, ())).validate(token(claims), NOW).subject == "alice"
    with pytest.raises(TokenError):
        validator().validate(token(claims), NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": ["x", "registry"]},
        {"exp": NOW_S - 29},
        {"nbf": NOW_S + 30},
        {"scope": "read"},
        {"scope": []},
        {"scope": 7},
        {"exp": NOW_S + 0.5},
    ],
)
def test_token_with_these_claims_passes(changes: dict[str, Any]) -> None:
    assert validator().validate(token(changed(**changes)), NOW).subject == "alice"


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"aud": []},
        {"exp": NOW_S - 30},
        {"exp": None},
        {"exp": "soon"},
        {"exp": -1},
        {"nbf": NOW_S + 31},
        {"iat": None},
        {"iat": "now"},
        {"iat": NOW_S + 31},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 7},
        {"scope": ""},
        {"scope": ["read", "read"]},
        {"scope": ["read", 7]},
    ],
)
def test_token_with_wrong_claims_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenError) as refused:
        validator().validate(token(changed(**changes)), NOW)
    assert "alice" not in str(refused.value)


def unsigned(algorithm: str = "none") -> str:
    body = token(CLAIMS).split(".")[1]
    head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode())
    return f"{head.rstrip(b'=').decode()}.{body}."


def signed_with_the_public_key() -> str:
    """Return a token whose HMAC key is the text of the public RSA key."""
    signed = unsigned("HS256").removesuffix(".")
    signature = hmac.digest(KEY.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: "",
        lambda: "a.b.c",
        lambda: "\ud800.\ud800.x",
        lambda: token(CLAIMS, OTHER),
        lambda: token(CLAIMS)[:-4] + "AAAA",
        unsigned,
        lambda: unsigned("NONE"),
        lambda: jwt.encode({"alg": "HS256"}, CLAIMS, OctKey.import_key("x" * 32)),
        signed_with_the_public_key,
        lambda: "x" * 20_000,
        lambda: token(CLAIMS, ECKey.generate_key("P-256"), alg="ES256"),
    ],
    ids=[
        *("empty", "garbage", "surrogates", "other key", "damaged", "none", "NONE"),
        *("shared secret", "public key as secret", "long", "other kind of key"),
    ],
)
def test_token_without_a_signature_of_the_issuer_is_refused(make: Any) -> None:
    with pytest.raises(TokenError):
        validator().validate(make(), NOW)


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("PS512", KEY),
        ("ES256", ECKey.generate_key("P-256", {"kid": "one"})),
        ("EdDSA", OKPKey.generate_key("Ed25519", {"kid": "one"})),
    ],
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_token_of_each_kind_of_public_key_passes(algorithm: str, key: Key) -> None:
    made = jwt.encode(
        {"alg": algorithm, "kid": "one"},
        CLAIMS,
        key,  # pyright: ignore[reportArgumentType]
        algorithms=[algorithm],
    )
    assert validator(key=key).validate(made, NOW).subject == "alice"


def test_only_a_key_id_that_is_not_in_the_set_is_unknown() -> None:
    assert validator().knows_key_of(token(CLAIMS))
    assert not validator().knows_key_of(token(CLAIMS, kid="two"))
    for strange in ("", "a.b", token(CLAIMS, kid="k" * 600), "x" * 20_000):
        assert validator().knows_key_of(strange)
