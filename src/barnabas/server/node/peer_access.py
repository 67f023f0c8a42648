"""The access of this node to the listeners of other nodes, from its configuration.

A node that is alone needs no credentials for others: it looks for them with its first connection,
should the cluster grow. All other nodes do so at their start, which is refused where they could not
work.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from barnabas.client.client_config import ClientConfig, SaslSettings, TlsSettings
from barnabas.client.failures import AuthenticationError
from barnabas.cluster.metadata.scram_credentials import SCRAM_BY_NAME
from barnabas.config import ConfigError, NodeConfig
from barnabas.config.listener_values import listener_property
from barnabas.security.sasl.node_credentials import (
    BROKER_MECHANISM,
    CONTROLLER_MECHANISM,
    NodeCredentials,
    node_credentials,
)
from barnabas.server.node_failures import StartupError

if TYPE_CHECKING:
    from barnabas.client.issued_tokens import IssuedTokens
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.kerberos.tickets import Tickets
    from barnabas.server.transport.outgoing_tls import OutgoingTls
    from barnabas.server.transport.tls_listener import TlsListener


class PeerAccess:
    """The protocol and the credentials of connections to one listener of other nodes."""

    def __init__(
        self,
        config: NodeConfig,
        listener: str,
        mechanism_name: str,
        own: "TlsListener | None",
    ) -> None:
        self.protocol = config.security_protocols.get(listener, "PLAINTEXT")
        self.credentials: NodeCredentials | None = None
        self.tls: OutgoingTls | None = None
        self._tokens: IssuedTokens | None = None
        self._tickets: Tickets | None = None
        self._config = config
        self._listener = listener
        self._mechanism_name = mechanism_name
        self._own = own
        self._is_loaded = False

    def load(self) -> None:
        """Look for the key store and the credentials. Raises ConfigError when they cannot work."""
        if self._is_loaded:
            return
        if self.protocol.startswith("SASL_"):
            self.credentials = node_credentials(self._config, self._listener, self._mechanism_name)
            if self.credentials.login is not None:
                from barnabas.client.issued_tokens import IssuedTokens

                self._tokens = IssuedTokens(self.credentials.login)
            if self.credentials.kerberos is not None:
                self._tickets = _tickets(self.credentials)
        if self.protocol.endswith("SSL"):
            from barnabas.server.transport.outgoing_tls import OutgoingTls

            self.tls = OutgoingTls(self._config, self._listener, self._own)
        self._is_loaded = True

    def secured(self, config: ClientConfig) -> ClientConfig:
        """Return the settings of a connection with its TLS and credentials (`Secured`)."""
        try:
            self.load()
        except ConfigError as error:
            raise AuthenticationError(str(error)) from None
        found = self.credentials
        bearer = None if self._tokens is None else self._tokens.token
        return attrs.evolve(
            config,
            tls=None if self.tls is None else TlsSettings(source=self.tls.context),
            sasl=found
            and SaslSettings(
                found.mechanism,
                found.username,
                found.password,
                bearer=bearer,
                tickets=self._tickets,
            ),
        )

    def check_user(self, image: "MetadataImage") -> None:
        """Raise StartupError when the cluster does not accept this node's SCRAM user."""
        found = self.credentials
        if found is None or not found.is_scram:
            return
        mechanism = SCRAM_BY_NAME[found.mechanism]
        known = image.scram.get((found.username, mechanism.code))
        fault = f"the cluster has no such user for {found.mechanism}"
        if known is not None:
            salted = mechanism.salted_password(found.password, known.salt, known.iterations)
            if mechanism.credential(known.salt, salted, known.iterations) == known:
                return
            fault = "its password is another one"
        raise StartupError(
            f"Invalid value [hidden] for configuration {found.property_name}: nodes connect to "
            f"each other as user {found.username}, and no node would accept it: {fault}; correct "
            "the property, or set the user with 'kafka-configs.sh --alter --entity-type users "
            f"--entity-name {found.username} --add-config {found.mechanism}=[password=...]', or "
            "before the first start of the cluster with 'barnabas format --add-scram'"
        )

    @property
    def reloaded_by(self) -> tuple[str, ...]:
        """The properties whose change has the stores read again."""
        if not self.protocol.endswith("SSL") or self._own is not None:
            return ()
        from barnabas.server.transport.tls_settings import RELOADED

        return tuple(listener_property(self._listener, name) for name in RELOADED)

    def reload(self, config: NodeConfig) -> None:
        """Read the stores again, unless the node's own listener of the same name does."""
        self._config = config
        if self.tls is not None and not self.tls.has_own_listener:
            self.tls.reload(config)


def _tickets(credentials: NodeCredentials) -> "Tickets | None":
    """Return the tickets of a node with GSSAPI. Raises ConfigError when it has no keys for them."""
    from barnabas.kerberos.gss_failures import KerberosError
    from barnabas.kerberos.tickets import Tickets

    if credentials.kerberos is None:
        return None
    found = Tickets(credentials.kerberos)
    try:
        found.check()
    except KerberosError as error:
        name = credentials.property_name
        raise ConfigError(
            f"Invalid value [hidden] for configuration {name}: {error}", name=name
        ) from None
    return found


@attrs.frozen
class NodeAccess:
    """The connections of a node to brokers and to controllers."""

    brokers: PeerAccess
    controllers: PeerAccess

    @property
    def all(self) -> tuple[PeerAccess, PeerAccess]:
        """Both kinds of connections."""
        return self.brokers, self.controllers


def node_access(config: NodeConfig, own: "Mapping[str, TlsListener]") -> NodeAccess:
    """Return how a node connects to others; `own` has its listeners with TLS, by name.

    Raises ConfigError when other nodes would refuse it.
    """
    brokers, controllers = (
        PeerAccess(config, listener, mechanism_name, own.get(listener))
        for listener, mechanism_name in (
            (config.inter_broker_listener_name, BROKER_MECHANISM),
            (config.controller_listener_names[0], CONTROLLER_MECHANISM),
        )
    )
    if config.is_broker and not config.is_single_node:
        brokers.load()
    if config.names_other_controllers:
        controllers.load()
    return NodeAccess(brokers, controllers)
