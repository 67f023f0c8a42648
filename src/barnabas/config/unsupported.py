"""Requests of a configuration that this server cannot fulfil.

A property that promises protection or storage stops the start: an open server must not look like
a closed one. Any other property without effect that the user sets is one warning line. A value
equal to the default is neither, as nothing would differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.node_config import SINGLE_NODE, lookup
from barnabas.config.schema import ConfigError, Property, to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from barnabas.config.node_config import NodeConfig

_LISTENER_PREFIX = "listener.name."
_TIMES_OF_KERBEROS = frozenset(
    {
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.min.time.before.relogin",
    }
)
"""Admin clients set them on nodes of any kind; without Kerberos they have no effect in Kafka."""
LIMITS_OF_CONNECTIONS = frozenset({"max.connections", "max.connection.creation.rate"})


def refuse_unsupported(config: NodeConfig) -> None:
    """Raise ConfigError when the node would silently not do what the configuration promises."""
    for name in config.static:
        row = lookup(name)
        if row is not None and row.unsupported and _differs(row, config.get(name)):
            raise ConfigError(
                f"Invalid value {_shown(row, config.get(name))} for configuration {name}: "
                f"{row.unsupported}; remove the property to start",
                name=name,
            )


def warnings_of(config: NodeConfig, given: Collection[str]) -> Iterator[str]:
    """Yield one warning line for each property in `given` that has no effect."""
    for name in given:
        row = lookup(name)
        if row is None or row.is_checked or not _differs(row, config.get(name)):
            continue
        if config.static[name] == SINGLE_NODE.get(name):
            continue  # as in the file that Kafka ships for a single node
        if _is_of_sasl(name) and row.has_effect:
            if not _has_sasl(config, name):
                yield f"{name} has no effect: no listener that it belongs to has SASL"
        elif _is_of_tls(name):
            if not _has_tls(config, name):
                yield f"{name} has no effect: no listener that it belongs to has TLS"
        elif _is_of_connections(name):
            if not _belongs(name, [each.name.lower() for each in config.listeners]):
                yield f"{name} has no effect: there is no listener of this name"
        elif name.startswith(_LISTENER_PREFIX):
            yield f"{name} has no effect: this property of one listener is not supported"
        elif not row.has_effect:
            yield f"{name}={_shown(row, config.get(name))} has no effect in barnabas"


def refuse_change(name: str, row: Property, node: NodeConfig) -> None:
    """Raise ConfigError when AlterConfigs may not set this property, although Kafka allows it."""
    if row.name in _TIMES_OF_KERBEROS and not _has_kerberos(node):
        return
    if row.needs_restart:
        reason = "it is applied at start-up only; set it in the configuration file and restart"
    elif row.unsupported:
        reason = row.unsupported
    elif name.startswith(_LISTENER_PREFIX) and not (
        row.has_effect and (_is_of_tls(name) or _is_of_connections(name))
    ):
        reason = "this property of one listener is not supported"
    else:
        return
    raise ConfigError(f"Cannot update configuration {name} dynamically: {reason}", name=name)


def note_of(row: Property) -> str:
    """Return a note for clients about a property's effect; empty when it has an effect."""
    if row.needs_restart:
        return "A change is applied at start-up only."
    if row.has_effect:
        return ""
    if row.unsupported:
        return f"Not supported: {row.unsupported}."
    if row.is_checked:
        return "Checked at start-up; without further effect on a single node."
    return "Accepted without effect."


def _is_of_sasl(name: str) -> bool:
    """True for a property of SASL, for all listeners, for one, or for a mechanism of one."""
    base = name.split(".", 3)[-1] if name.startswith(_LISTENER_PREFIX) else name
    return any(part in f".{base}" for part in (".sasl.", ".connections.max.reauth.ms"))


def _has_sasl(config: NodeConfig, name: str) -> bool:
    """True when a listener with SASL exists to which the property belongs."""
    return _belongs(name, _listeners(config, lambda protocol: protocol.startswith("SASL_")))


def _has_kerberos(config: NodeConfig) -> bool:
    """True when a login of the node is Kerberos's."""
    modules = (text for name, text in config.static.items() if name.endswith("sasl.jaas.config"))
    return any("Krb5LoginModule" in text for text in modules)


def _is_of_tls(name: str) -> bool:
    return name.startswith("ssl.") or (
        name.startswith(_LISTENER_PREFIX) and name.split(".", 3)[-1].startswith("ssl.")
    )


def _is_of_connections(name: str) -> bool:
    """True for the number of connections of one listener, and the rate of new ones."""
    return name.startswith(_LISTENER_PREFIX) and name.split(".", 3)[-1] in LIMITS_OF_CONNECTIONS


def _has_tls(config: NodeConfig, name: str) -> bool:
    """True when a listener with TLS exists to which the property belongs."""
    return _belongs(name, _listeners(config, lambda protocol: protocol.endswith("SSL")))


def _listeners(config: NodeConfig, has: Callable[[str], bool]) -> set[str]:
    """Return the names of the listeners, of this node and of those it connects to, by protocol."""
    names = {config.inter_broker_listener_name, config.controller_listener_names[0]}
    protocols = {each: config.security_protocols.get(each, "PLAINTEXT") for each in names}
    protocols |= {each.name: each.security_protocol for each in config.listeners}
    return {name.lower() for name, protocol in protocols.items() if has(protocol)}


def _belongs(name: str, listeners: Collection[str]) -> bool:
    """True when one of the listeners reads the property."""
    is_of_all = not name.startswith(_LISTENER_PREFIX)
    return bool(listeners) and (is_of_all or name.split(".", 3)[2] in listeners)


def _differs(row: Property, value: object) -> bool:
    """Return True when `value` requests something that the default does not."""
    return value != row.default and (value not in (None, "", ()) or row.has_effect)


def _shown(row: Property, value: object) -> str | None:
    return "[hidden]" if row.sensitive else to_text(value)
