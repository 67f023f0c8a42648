"""The properties of a client that logs in with tokens (OAUTHBEARER), as a `TokenLogin`.

They have the names of Java's clients (`sasl.oauthbearer.client.credentials.client.id`, or options
of the login module) or those of librdkafka (`sasl.oauthbearer.client.id`).
"""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from barnabas.client.core.token_login import (
    CLIENT_ID,
    CLIENT_SECRET,
    HANDLER,
    HANDLERS,
    OPTIONS,
    SCOPE,
    URL,
    TokenLogin,
)
from barnabas.config import ConfigError
from barnabas.json_documents import DocumentError, check_address

_NAMES: Final = {
    CLIENT_ID: (CLIENT_ID, "sasl.oauthbearer.client.id"),
    CLIENT_SECRET: (CLIENT_SECRET, "sasl.oauthbearer.client.secret"),
    SCOPE: (SCOPE,),
}
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_RETRIEVERS: Final = tuple(
    f"{_PACKAGE}.{each}JwtRetriever" for each in ("Default", "ClientCredentials", "File")
)
# What barnabas does not have in place of a client; the values that change nothing are accepted.
_ACCEPTED: Final = {
    HANDLER: HANDLERS,
    "sasl.oauthbearer.jwt.retriever.class": _RETRIEVERS,
    "sasl.oauthbearer.method": ("oidc", "default"),
    "sasl.oauthbearer.grant.type": ("client_credentials",),
    "sasl.oauthbearer.extensions": ("",),
}


def token_properties(
    take: Callable[..., str | None], jaas: Mapping[str, str], *, needed: bool
) -> TokenLogin | None:
    """Return the login that properties describe, None unless it is needed.

    `take` returns the value of the first of several names, which all count as known. Raises
    ConfigError.
    """
    given = {name: take(name) for name in (URL, *_ACCEPTED)}
    credentials = {
        name: take(*names) or jaas.get(OPTIONS[name]) or None for name, names in _NAMES.items()
    }
    if not needed:
        return None
    for name, accepted in _ACCEPTED.items():
        value = given[name]
        if value is not None and value not in accepted:
            raise ConfigError(
                f"Invalid value {value} for {name}: barnabas gets tokens for client credentials, "
                f"or from a file; remove it, or set it to {accepted[0] or 'nothing'}"
            )
    extension = next((name for name in jaas if name.startswith("extension_")), None)
    if extension is not None:
        raise ConfigError(
            f"sasl.jaas.config has {extension}: barnabas sends no SASL extensions; remove it"
        )
    login = TokenLogin(_address(given[URL]))
    if login.file is not None:
        return login
    for name in (CLIENT_ID, CLIENT_SECRET):
        if credentials[name] is None:
            raise ConfigError(
                f"Missing {name}: {URL}={login.url} gives tokens for a client id and its secret; "
                f"set {CLIENT_ID} and {CLIENT_SECRET}"
            )
    return TokenLogin(
        login.url,
        credentials[CLIENT_ID] or "",
        credentials[CLIENT_SECRET] or "",
        credentials[SCOPE],
    )


def _address(url: str | None) -> str:
    """Return the address of tokens. Raises ConfigError when it cannot be used."""
    example = "as https://issuer.example.org/token, or to a file, as file:///etc/kafka/token"
    if not url:
        raise ConfigError(
            f"Missing {URL}: OAUTHBEARER needs tokens; set it to the issuer, {example}"
        )
    if TokenLogin(url).file is None:
        if "@" in urlsplit(url).netloc:
            raise ConfigError(f"{URL} has a user name: set {CLIENT_ID} and {CLIENT_SECRET} instead")
        try:
            check_address(url)
        except DocumentError as error:
            raise ConfigError(f"Invalid value {url} for {URL}: {error}; set it {example}") from None
    return url
