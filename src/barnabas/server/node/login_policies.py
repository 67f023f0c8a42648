"""The authentication of clients on each listener of a node, from the configuration."""

import secrets
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.cluster.metadata.delegation_tokens import SECRET_KEY
from barnabas.cluster.metadata.scram_credentials import SCRAM_BY_NAME, ScramMechanism
from barnabas.config import ConfigError
from barnabas.kerberos.gss_failures import KerberosError
from barnabas.kerberos.login_options import GSSAPI
from barnabas.kerberos.service_keys import ServiceKeys
from barnabas.security.kerberos_names import KerberosShortNames
from barnabas.security.sasl.gssapi_mechanism import GssapiExchange
from barnabas.security.sasl.kerberos_settings import KerberosSettings, service_keys
from barnabas.security.sasl.oauthbearer_mechanism import OAUTHBEARER, OauthBearerExchange
from barnabas.security.sasl.plain_mechanism import PLAIN, PlainExchange
from barnabas.security.sasl.sasl_authenticator import MechanismSettings, SaslServerAuthenticator
from barnabas.security.sasl.sasl_mechanism import StartExchange
from barnabas.security.sasl.sasl_settings import SaslListener, sasl_listeners
from barnabas.security.sasl.scram_mechanism import FindToken, ScramExchange
from barnabas.security.sasl.token_credentials import TokenCredentials
from barnabas.server.node.token_keys import FetchedKeys, token_keys
from barnabas.server.transport.login import LoginPolicy
from barnabas.server.transport.waiting_clients import WaitingClients

if TYPE_CHECKING:
    from barnabas.cluster.metadata.scram_credentials import ScramCredential
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
        keys = None if listener.tokens is None else token_keys(listener.tokens)
        special: dict[str, StartExchange] = {}
        if keys is not None:
            special[OAUTHBEARER] = partial(OauthBearerExchange, keys.validate)
        if listener.kerberos is not None:
            special[GSSAPI] = _kerberos_exchanges(listener.kerberos)
        mechanisms = {
            each: MechanismSettings(
                special.get(each) or _exchanges(node, listener, each, mock_key, find_token),
                max_reauth_ms,
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
            services=(keys.run,) if isinstance(keys, FetchedKeys) else (),
        )
    return policies


def _exchanges(
    node: "Node",
    listener: SaslListener,
    mechanism: str,
    mock_key: bytes,
    find_token: FindToken | None,
) -> StartExchange:
    """Return what starts an exchange of a mechanism with passwords."""
    if mechanism == PLAIN:
        return partial(PlainExchange, listener.plain_users)
    scram = SCRAM_BY_NAME[mechanism]
    return lambda: ScramExchange(
        scram,
        partial(_credential, node, scram),
        secrets.token_urlsafe(_NONCE_BYTES),
        mock_key,
        find_token,
    )


def _kerberos_exchanges(settings: KerberosSettings) -> StartExchange:
    """Return what starts an exchange of GSSAPI. Raises ConfigError when the keys are not there."""
    principal, keytab = service_keys(settings)
    try:
        keys = ServiceKeys(principal, keytab)
    except KerberosError as error:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {settings.property_name}: {error}",
            name=settings.property_name,
        ) from None
    names = KerberosShortNames(settings.rules, keys.default_realm)
    return partial(GssapiExchange, keys.accept, names)


def _find_token(node: "Node") -> FindToken | None:
    """Return what finds delegation tokens; None on a node without them."""
    secret: str | None = node.config.get(SECRET_KEY)
    return TokenCredentials(lambda: node.image.tokens, secret).find if secret else None


def _credential(node: "Node", mechanism: ScramMechanism, user: str) -> "ScramCredential | None":
    return node.image.scram.get((user, mechanism.code))
