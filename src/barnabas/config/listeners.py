"""Listeners: parse `NAME://host:port` texts into endpoints with a security protocol.

The rules are those of Kafka's `SocketServerConfigs.listenerListToEndPoints` and of
`KafkaConfig.validateValues`: names and ports of listeners differ (port 0 may repeat), what is
advertised has a listener of that name, controllers have a separate listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.config.schema import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

# An address for all interfaces; a client cannot connect to it.
_ANY = ("", "0.0.0.0", "::")


class Listener(NamedTuple):
    """One endpoint. An empty `host` means all interfaces, port 0 a free port."""

    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """Read `listener.security.protocol.map`: NAME:PROTOCOL pairs, separated by commas."""
    mapping: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"Invalid value {text} for configuration listener.security.protocol.map: {pair} "
                f"is not NAME:PROTOCOL with a protocol out of {', '.join(SECURITY_PROTOCOLS)}",
                name="listener.security.protocol.map",
            )
        if name in mapping:
            raise ConfigError(
                f"Invalid value {text} for configuration listener.security.protocol.map: "
                f"{name} is in the list twice",
                name="listener.security.protocol.map",
            )
        mapping[name] = protocol
    return mapping


def parse_listeners(
    property_name: str, texts: Iterable[str], protocols: Mapping[str, str]
) -> tuple[Listener, ...]:
    """Read a list of `NAME://host:port`; an IPv6 address is in brackets."""
    return tuple(_parse(property_name, text.strip(), protocols) for text in texts)


def _parse(property_name: str, text: str, protocols: Mapping[str, str]) -> Listener:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (name and separator and colon and port.isdecimal() and int(port) < 65536) or (
        not bracketed and any(sign in host for sign in ":/[] ")
    ):
        raise ConfigError(
            f"Invalid value {text} for configuration {property_name}: it must be "
            "NAME://host:port with a port from 0 to 65535, as PLAINTEXT://localhost:9092",
            name=property_name,
        )
    if host and not bracketed and not _is_host_name(host):
        raise ConfigError(
            f"Invalid value {text} for configuration {property_name}: {host} is not a host name; "
            "each label between its dots must have 1 to 63 characters",
            name=property_name,
        )
    name = name.upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"Invalid value {text} for configuration {property_name}: listener {name} has no "
            "security protocol; add it to listener.security.protocol.map, "
            f"as {name}:PLAINTEXT",
            name=property_name,
        )
    return Listener(name, host[1:-1] if bracketed else host, int(port), protocol)


def _is_host_name(host: str) -> bool:
    """True when a host name can be encoded for a look-up."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def check_distinct(listeners: Iterable[Listener], text: str) -> None:
    """Refuse two listeners of one name, or of one port (an IPv4 and an IPv6 one may share)."""
    names: set[str] = set()
    ports: dict[int, list[str]] = {}
    for listener in listeners:
        if listener.name in names:
            raise ConfigError(
                f"Invalid value {text} for configuration listeners: name {listener.name} "
                "is in the list twice",
                name="listeners",
            )
        names.add(listener.name)
        ports.setdefault(listener.port, []).append(listener.host)
    for port, hosts in ports.items():
        families = {":" in host for host in hosts}
        if port and len(hosts) > 1 and not (len(hosts) == 2 and len(families) == 2):
            raise ConfigError(
                f"Invalid value {text} for configuration listeners: "
                f"port {port} is in the list twice",
                name="listeners",
            )


def advertise(
    listeners: Iterable[Listener],
    advertised: tuple[Listener, ...] | None,
    host_name: Callable[[], str],
) -> tuple[Listener, ...]:
    """Return the endpoints in metadata answers: `advertised`, or the listeners themselves.

    As in Kafka, a listener on all interfaces is advertised under the host name, and a wildcard
    address in advertised.listeners is refused.
    """
    if advertised is None:
        return tuple(
            listener._replace(host=host_name()) if listener.host in _ANY else listener
            for listener in listeners
        )
    known = {listener.name for listener in listeners}
    for listener in advertised:
        if listener.name not in known:
            raise ConfigError(
                f"Invalid value {listener} for configuration advertised.listeners: there is no "
                f"listener {listener.name}; listeners has {', '.join(sorted(known))}",
                name="advertised.listeners",
            )
        if listener.host in _ANY[1:]:
            raise ConfigError(
                f"Invalid value {listener} for configuration advertised.listeners: it must be "
                "an address or name that clients reach, not a wildcard",
                name="advertised.listeners",
            )
    return tuple(
        listener._replace(host=host_name()) if not listener.host else listener
        for listener in advertised
    )


def check_reachable(
    listeners: Iterable[Listener],
    host_name: Callable[[], str],
    addresses: Callable[[str], Iterable[str]],
) -> None:
    """Refuse a listener on all interfaces when the host name resolves to this machine only.

    Clients of other machines or containers would get an address that leads to themselves.
    """
    for listener in listeners:
        if listener.host not in _ANY:
            continue
        name = host_name()
        if not all(_is_loopback(address) for address in addresses(name)):
            return
        raise ConfigError(
            f"Invalid value {listener} for configuration listeners: it is on all interfaces, and "
            f"the host name {name} does not resolve to an address that other machines reach; "
            f"set advertised.listeners, as {listener.name}://kafka.example.org:{listener.port}",
            name="listeners",
        )


def _is_loopback(address: str) -> bool:
    """Return True for an IP address that only this machine reaches."""
    return address.startswith("127.") or address in ("::1", "0.0.0.0", "::")


def listener_property(listener: str, name: str, mechanism: str = "") -> str:
    """Return the name that a property has for one listener, or for one of its mechanisms."""
    parts = filter(None, ("listener.name", listener.lower(), mechanism.lower(), name))
    return ".".join(parts)
