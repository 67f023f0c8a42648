"""The credentials with which a node authenticates at the listeners of other nodes.

As in Kafka, they are `username` and `password` of the listener's own `sasl.jaas.config`, a token
(`token_logins`), or the keys of a Kerberos principal.
"""

from typing import TYPE_CHECKING, Final

import attrs

from barnabas.config import ConfigError, NodeConfig
from barnabas.config.listener_values import listener_property
from barnabas.kerberos.gssapi_library import EXTRA
from barnabas.kerberos.login_options import GSSAPI
from barnabas.security.sasl.kerberos_settings import kerberos_settings
from barnabas.security.sasl.oauthbearer_mechanism import OAUTHBEARER
from barnabas.security.sasl.plain_mechanism import PLAIN, plain_users
from barnabas.security.sasl.sasl_settings import (
    LOGIN_MODULES,
    MECHANISMS,
    enabled_mechanisms,
    login_module,
)

if TYPE_CHECKING:
    from barnabas.client.core.token_login import TokenLogin
    from barnabas.kerberos.login_options import KerberosLogin

BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
_JAAS: Final = "sasl.jaas.config"
_SCRAM: Final = "SCRAM-"


@attrs.frozen
class NodeCredentials:
    """A mechanism, and a user with its password, or the way to a token or a ticket.

    `property_name` is where they are configured.
    """

    mechanism: str
    username: str
    password: str = attrs.field(repr=False)
    property_name: str
    login: "TokenLogin | None" = None
    kerberos: "KerberosLogin | None" = None

    @property
    def is_scram(self) -> bool:
        """True when the other node finds the user in the metadata of the cluster."""
        return self.mechanism.startswith(_SCRAM)


def node_credentials(config: NodeConfig, listener: str, mechanism_name: str) -> NodeCredentials:
    """Return the credentials for a listener with SASL of other nodes.

    `mechanism_name` is the property with the mechanism. Raises ConfigError when they cannot work.
    """
    mechanism = _mechanism(config, listener, mechanism_name)
    if mechanism == OAUTHBEARER:
        from barnabas.security.sasl.token_logins import token_login

        login, name = token_login(config, listener)
        return NodeCredentials(mechanism, "", "", name, login)
    name = listener_property(listener, _JAAS, mechanism)
    module = login_module(config, listener, mechanism)
    if mechanism == GSSAPI:
        kerberos = kerberos_settings(config, listener, module).login
        return NodeCredentials(mechanism, "", "", name, kerberos=kerberos)
    options = module.options
    username, password = options.get("username"), options.get("password")
    if not username or password is None:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {name}: this node authenticates at listener "
            f"{listener} of other nodes with {mechanism}, and the entry lacks username or "
            f"password; write it as {_example(mechanism)}",
            name=name,
        )
    users = plain_users(options)
    is_own = any(each.name == listener for each in config.listeners)
    if mechanism == PLAIN and is_own and users.get(username) != password:
        fault = "another password" if username in users else f"no user_{username}"
        raise ConfigError(
            f"Invalid value [hidden] for configuration {name}: nodes connect to each other as user "
            f"{username}, and the entry has {fault}, so that no node would accept them; "
            f"write it as {_example(mechanism)}",
            name=name,
        )
    if mechanism_name == CONTROLLER_MECHANISM:
        _refuse_scram_of_voters(config, mechanism)
    return NodeCredentials(mechanism, username, password, name)


def _mechanism(config: NodeConfig, listener: str, name: str) -> str:
    known = ", ".join(MECHANISMS)
    jaas = listener_property(listener, _JAAS, GSSAPI)
    if not config.is_set(name) and not config.is_set(jaas):
        raise ConfigError(
            f"Missing configuration {name}: nodes would use GSSAPI (Kerberos), the default, on "
            f"listener {listener}, which needs {EXTRA} and {jaas}; set it to one of {known}",
            name=name,
        )
    mechanism = str(config.get(name))
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"Invalid value {mechanism} for configuration {name}: barnabas does not support this "
            f"mechanism between nodes; use one of {known}",
            name=name,
        )
    if any(each.name == listener for each in config.listeners):
        enabled = enabled_mechanisms(config, listener)
        if mechanism not in enabled:
            raise ConfigError(
                f"Invalid value {mechanism} for configuration {name}: listener {listener} accepts "
                f"{', '.join(enabled)} only; add it to sasl.enabled.mechanisms of the listener",
                name=name,
            )
    return mechanism


def _refuse_scram_of_voters(config: NodeConfig, mechanism: str) -> None:
    """Raise ConfigError when several controllers would authenticate to each other with SCRAM."""
    if not mechanism.startswith(_SCRAM) or not config.is_controller:
        return
    if config.names_other_controllers:
        raise ConfigError(
            f"Invalid value {mechanism} for configuration {CONTROLLER_MECHANISM}: SCRAM users are "
            "in the metadata log, which controllers can read only after they have elected a "
            "leader, and for an election they must authenticate; use PLAIN or a listener with SSL "
            "between controllers (Apache Kafka: KAFKA-15513). SCRAM works with one controller",
            name=CONTROLLER_MECHANISM,
        )


def _example(mechanism: str) -> str:
    accepted = ' user_broker="broker-secret"' if mechanism == PLAIN else ""
    return (
        f'{LOGIN_MODULES[mechanism]} required username="broker" password="broker-secret"{accepted};'
    )
