"""Properties of OAUTHBEARER, with the names of Java's clients and of librdkafka."""

from typing import Final

import pytest

from barnabas.client import ClientConfig
from barnabas.client.core.token_login import TokenLogin
from barnabas.config import ConfigError

URL: Final = "sasl.oauthbearer.token.endpoint.url"
ISSUER: Final = "https://issuer.example.org/token"
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
HANDLER: Final = "sasl.login.callback.handler.class"
BASE: Final = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}
MODULE: Final = f"{OAUTH}.OAuthBearerLoginModule required"
JAVA_3_9: Final = {
    **BASE,
    URL: ISSUER,
    HANDLER: f"{OAUTH}.secured.OAuthBearerLoginCallbackHandler",
    "sasl.jaas.config": f'{MODULE} clientId="me" clientSecret="it\'s" scope="kafka";',
}
JAVA_4_3: Final = {
    **BASE,
    URL: ISSUER,
    HANDLER: f"{OAUTH}.OAuthBearerLoginCallbackHandler",
    "sasl.jaas.config": f"{MODULE};",
    "sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.ClientCredentialsJwtRetriever",
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "it's",
    "sasl.oauthbearer.scope": "kafka",
}
LIBRDKAFKA: Final = {
    **BASE,
    URL: ISSUER,
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "it's",
    "sasl.oauthbearer.scope": "kafka",
}


def login(properties: dict[str, str]) -> TokenLogin:
    """Return where the token of a client with these properties comes from."""
    config = ClientConfig.from_properties(properties)
    assert config.ignored == ()
    assert config.sasl is not None
    assert config.sasl.bearer is not None
    assert config.sasl.login is not None
    assert "it's" not in repr(config)
    return config.sasl.login


@pytest.mark.parametrize("properties", [JAVA_3_9, JAVA_4_3, LIBRDKAFKA])
def test_client_credentials_have_the_names_of_each_client(properties: dict[str, str]) -> None:
    assert login(properties) == TokenLogin(ISSUER, "me", "it's", "kafka")


def test_token_in_a_file_needs_no_credentials() -> None:
    found = login({**BASE, URL: "file:///etc/kafka/token"})
    assert (found.file, found.client_id) == ("/etc/kafka/token", "")


def test_properties_of_tokens_are_not_needed_without_sasl() -> None:
    config = ClientConfig.from_properties({**JAVA_4_3, "security.protocol": "SSL"})
    assert (config.sasl, config.ignored) == (None, ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({URL: ""}, f"Missing {URL}: OAUTHBEARER needs tokens; set it to the issuer"),
        ({URL: "http://issuer.example.org"}, f"for {URL}: it must begin with https://.*; set it"),
        ({URL: "https://me:pw@issuer.example.org"}, f"{URL} has a user name: set sasl.oauthb"),
        (
            {"sasl.oauthbearer.client.secret": ""},
            f"Missing sasl.oauthbearer.client.credentials.client.secret: {URL}={ISSUER} gives",
        ),
        ({"sasl.oauthbearer.client.id": ""}, "Missing .*client.id: .*; set "),
        ({HANDLER: "org.example.Own"}, f"Invalid value org.example.Own for {HANDLER}: .*remove it"),
        ({"sasl.oauthbearer.grant.type": "jwt"}, "jwt for sasl.oauthbearer.grant.type: .*remove"),
        ({"sasl.oauthbearer.extensions": "a=b"}, "a=b for sasl.oauthbearer.extensions: .*remove"),
        (
            {"sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.JwtBearerJwtRetriever"},
            "JwtBearerJwtRetriever for .*retriever.class: .*remove it, or set it to .*Default",
        ),
        ({"sasl.jaas.config": f"{MODULE} extension_a=b;"}, "has extension_a: .*remove it"),
        ({"sasl.mechanism": "PLAN"}, "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
    ],
)
def test_property_that_cannot_work_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        ClientConfig.from_properties({**LIBRDKAFKA, **changes})
    assert "it's" not in str(refused.value)
    assert "pw@" not in str(refused.value)
