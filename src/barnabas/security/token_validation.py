"""Validation of signed tokens (JWT) with a set of public keys, for SASL and for HTTP.

Pure: the keys and the time are arguments. Signatures with a shared secret, and tokens without a
signature, are never accepted; the algorithm must fit the kind of the key.
"""

import binascii
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, cast

import attrs

if TYPE_CHECKING:
    from joserfc.jwk import KeySet
    from joserfc.jwt import JWTClaimsRegistry

_ALGORITHMS: Final = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
]
_TOKEN_CHARACTERS_MAX: Final = 16_384
_KEY_ID_CHARACTERS_MAX: Final = 512
_SECONDS_MAX: Final = 1 << 40


class TokenError(Exception):
    """A token is invalid; the message shows nothing of it."""


class KeySetError(Exception):
    """A document has no set of keys that can be used."""


@attrs.frozen
class TokenRules:
    """The claims that a token must have.

    An `issuer` of None and empty `audiences` accept any. `required_claims` are those that must be
    present in addition to the expiry.
    """

    issuer: str | None
    audiences: tuple[str, ...]
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: float = 30.0
    required_claims: tuple[str, ...] = ()


@attrs.frozen
class ValidToken:
    """The content of a valid token."""

    subject: str
    scopes: frozenset[str]
    expires_at_ms: int


class TokenValidator:
    """Validates tokens with a set of keys."""

    def __init__(self, rules: TokenRules, keys: "KeySet") -> None:
        self._rules = rules
        self._keys = keys
        self._key_ids = {key.kid for key in keys.keys}

    @classmethod
    def of_key_set(cls, rules: TokenRules, document: Mapping[str, object]) -> "TokenValidator":
        """Return a validator with the keys of a document (JWKS). Raises KeySetError.

        Raises ImportError without joserfc.
        """
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            keys = KeySet.import_key_set(document)  # pyright: ignore[reportArgumentType]
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise KeySetError(str(error)) from None
        return cls(rules, keys)

    def knows_key_of(self, token: str) -> bool:
        """Return False when the token names a key that is not in the set."""
        from joserfc import jws
        from joserfc.errors import JoseError

        if len(token) > _TOKEN_CHARACTERS_MAX:
            return True
        try:
            key_id = jws.extract_compact(token.encode()).headers().get("kid")
        except (JoseError, ValueError):
            return True
        if key_id is None or not isinstance(key_id, str) or len(key_id) > _KEY_ID_CHARACTERS_MAX:
            return True
        return key_id in self._key_ids

    def validate(self, token: str, now_ms: int) -> ValidToken:
        """Return what a valid token says. Raises TokenError."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        if len(token) > _TOKEN_CHARACTERS_MAX:
            raise TokenError("the token is too long")
        try:
            claims = jwt.decode(token, self._keys, algorithms=_ALGORITHMS).claims
            self._registry(now_ms).validate(claims)
        except (JoseError, ValueError, TypeError, KeyError, binascii.Error) as error:
            raise TokenError(f"invalid token: {type(error).__name__}") from None
        return ValidToken(
            subject=_subject(claims, self._rules.subject_claim),
            scopes=_scopes(claims.get(self._rules.scope_claim)),
            expires_at_ms=_milliseconds(claims.get("exp")),
        )

    def _registry(self, now_ms: int) -> "JWTClaimsRegistry":
        """Return the checks of a token's claims at a time."""
        from joserfc.jwt import ClaimsOption, JWTClaimsRegistry

        rules = self._rules
        options: dict[str, ClaimsOption] = {
            name: {"essential": True} for name in ("exp", *rules.required_claims)
        }
        if rules.issuer is not None:
            options["iss"] = {"essential": True, "value": rules.issuer}
        if rules.audiences:
            options["aud"] = {"essential": True, "values": list(rules.audiences)}
        return JWTClaimsRegistry(now=now_ms // 1000, leeway=round(rules.clock_skew_s), **options)


def _subject(claims: Mapping[str, object], name: str) -> str:
    subject = claims.get(name)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenError(f"the token has no claim {name}")
    return subject.strip()


def _scopes(value: object) -> frozenset[str]:
    """Return the scopes in a claim: a text, or a list of different texts. Raises TokenError."""
    if isinstance(value, str):
        given: Collection[object] = [value]
    elif isinstance(value, list):
        given = cast("list[object]", value)
    else:
        return frozenset()
    scopes = [each.strip() for each in given if isinstance(each, str) and each.strip()]
    if len(scopes) != len(given) or len(set(scopes)) != len(scopes):
        raise TokenError("the token's scopes are not different texts")
    return frozenset(scopes)


def _milliseconds(value: object) -> int:
    if not isinstance(value, int | float) or value < 0:
        raise TokenError("the token's expiry is not a time")
    return min(int(value), _SECONDS_MAX) * 1000
