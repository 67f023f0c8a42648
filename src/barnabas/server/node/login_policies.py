"""The authentication of clients on each listener of a node, from the configuration."""

import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.cluster.metadata.delegation_tokens import SECRET_KEY
from barnabas.cluster.metadata.scram_credentials import SCRAM_BY_NAME, ScramMechanism
from barnabas.config import ConfigError
from barnabas.security.sasl.oauthbearer_mechanism import OAUTHBEARER, OauthBearerExchange
from barnabas.security.sasl.plain_mechanism import PLAIN, PlainExchange
from barnabas.security.sasl.sasl_authenticator import MechanismSettings, SaslServerAuthenticator
from barnabas.security.sasl.sasl_mechanism import StartExchange
from barnabas.security.sasl.sasl_settings import SaslListener, TokenSettings, sasl_listeners
from barnabas.security.sasl.scram_mechanism import FindToken, ScramExchange
from barnabas.security.sasl.token_credentials import TokenCredentials
from barnabas.server.transport.login import LoginPolicy
from barnabas.server.transport.waiting_clients import WaitingClients

if TYPE_CHECKING:
    from barnabas.cluster.metadata.scram_credentials import ScramCredential
    from barnabas.security.token_validation import TokenValidator
    from barnabas.server.node.node import Node

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 18


def login_policies(node: "Node") -> dict[str, LoginPolicy]:
    """Return the policy of each listener with SASL, by its name. Raises ConfigError."""
    config = node.config
    mock_key = secrets.token_bytes(_KEY_BYTES)
    find_token = _find_token(node)
    policies: dict[str, LoginPolicy] = {}
    for name, listener in sasl_listeners(config).items():
        mechanisms = {
            each: MechanismSettings(
                _exchanges(node, listener, each, mock_key, find_token), max_reauth_ms
            )
            for each, max_reauth_ms in listener.mechanisms.items()
        }
        policies[name] = LoginPolicy(
            authenticator=partial(SaslServerAuthenticator, mechanisms),
            wall_ms=node.clock.wall_ms,
            receive_bytes_max=config.get_int("sasl.server.max.receive.size"),
            failure_delay_s=config.get_int("connection.failed.authentication.delay.ms") / 1000,
            deadline_s=config.get_int("barnabas.authentication.timeout.ms") / 1000,
            waiting=WaitingClients(config.get_int("barnabas.unauthenticated.connections.max")),
        )
    return policies


def _exchanges(
    node: "Node",
    listener: SaslListener,
    mechanism: str,
    mock_key: bytes,
    find_token: FindToken | None,
) -> StartExchange:
    """Return what starts an exchange of a mechanism."""
    if mechanism == PLAIN:
        return partial(PlainExchange, listener.plain_users)
    if mechanism == OAUTHBEARER and listener.tokens is not None:
        return partial(OauthBearerExchange, _validator(listener.tokens).validate)
    scram = SCRAM_BY_NAME[mechanism]
    return lambda: ScramExchange(
        scram,
        partial(_credential, node, scram),
        secrets.token_urlsafe(_NONCE_BYTES),
        mock_key,
        find_token,
    )


def _find_token(node: "Node") -> FindToken | None:
    """Return what finds delegation tokens; None on a node without them."""
    secret: str | None = node.config.get(SECRET_KEY)
    return TokenCredentials(lambda: node.image.tokens, secret).find if secret else None


def _credential(node: "Node", mechanism: ScramMechanism, user: str) -> "ScramCredential | None":
    return node.image.scram.get((user, mechanism.code))


def _validator(settings: TokenSettings) -> "TokenValidator":
    """Return the validator of tokens; its keys are read once. Raises ConfigError."""
    from barnabas.security.token_validation import TokenValidator

    name = "sasl.oauthbearer.jwks.endpoint.url"
    try:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet
    except ImportError:
        raise ConfigError(
            "OAUTHBEARER needs the package joserfc: install barnabas[oauth]",
            name="sasl.enabled.mechanisms",
        ) from None
    try:
        document = _json_object(Path(settings.keys_file))
        keys = KeySet.import_key_set(document)  # pyright: ignore[reportArgumentType]
    except (JoseError, OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"Invalid value file:{settings.keys_file} for configuration {name}: it has no usable "
            f"set of keys (JWKS): {error}",
            name=name,
        ) from None
    return TokenValidator(settings.rules, keys)


def _json_object(path: Path) -> Mapping[str, object]:
    """Return the object in a JSON file. Raises OSError, and ValueError when it is not one."""
    import json

    found: object = json.loads(path.read_bytes())
    if not isinstance(found, dict):
        raise ValueError("the file is not a JSON object")
    return found  # pyright: ignore[reportUnknownVariableType]
