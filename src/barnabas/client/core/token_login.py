"""The source of a client's token for OAUTHBEARER, and the names of the properties that describe it.

The names are those of Kafka's `OAuthBearerLoginCallbackHandler`. Nodes and clients have them.
"""

from typing import Final

import attrs

OAUTHBEARER: Final = "OAUTHBEARER"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
LOGIN_MODULE: Final = f"{_PACKAGE}.OAuthBearerLoginModule"
HANDLERS: Final = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
"""The class that logs in with issued tokens, and the name that it also has before Kafka 4.0."""
HANDLER: Final = "sasl.login.callback.handler.class"
URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
OPTIONS: Final = {CLIENT_ID: "clientId", CLIENT_SECRET: "clientSecret", SCOPE: "scope"}
"""The options of the login module, where credentials are before Kafka 4.1."""
_FILE: Final = "file:"


@attrs.frozen
class TokenLogin:
    """The address of tokens, and the client's credentials there; a file needs none."""

    url: str
    client_id: str = ""
    client_secret: str = attrs.field(default="", repr=False)
    scope: str | None = None

    @property
    def file(self) -> str | None:
        """The path of the file that has the token, None for an issuer."""
        if not self.url.startswith(_FILE):
            return None
        return self.url.removeprefix(_FILE).removeprefix("//")
