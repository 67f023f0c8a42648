"""A node's configuration: defaults, the file, `--set`, and dynamic values of AlterConfigs.

A `NodeConfig` is a value: altering a broker property while the node runs gives a new one
(`with_dynamic`). Values in frequent use are attributes; for all others call
`config.get("log.segment.bytes")`.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.config.listeners import (
    advertise,
    check_distinct,
    check_reachable,
    parse_listeners,
    parse_protocol_map,
)
from barnabas.config.properties import BROKER_PROPERTIES, DYNAMIC_ONLY_PROPERTIES
from barnabas.config.schema import ConfigError, Property

if TYPE_CHECKING:
    from collections.abc import Mapping

# The values of Kafka's shipped single-node server.properties, with three differences: the listeners
# are on the loopback address (nothing is authenticated), the data is in the working directory, and
# the first member of a group does not wait for others.
SINGLE_NODE: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": "data",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}

# Each property takes the value of the other when it is not set (`KafkaConfig.populateSynonyms`).
_ALIASES = (("node.id", "broker.id"), ("broker.id", "node.id"))

_OPEN_PREFIXES = ("listener.name.", "rsm.config.", "rlmm.config.", "config.providers.")


class NodeConfig:
    """The effective configuration of one node.

    `static` holds the texts that were given (file and overrides), `warnings` one line for each
    given property that is unknown or has no effect.
    """

    def __init__(
        self,
        static: Mapping[str, str],
        *,
        cluster_dynamic: Mapping[str, str] | None = None,
        broker_dynamic: Mapping[str, str] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.static = dict(static)
        self.cluster_dynamic = dict(cluster_dynamic or {})
        self.broker_dynamic = dict(broker_dynamic or {})
        self.warnings = warnings
        self._values: dict[str, Any] = {}
        self._topic_defaults: dict[str, Any] | None = None
        for texts in (self.static, self.cluster_dynamic, self.broker_dynamic):
            for name, text in texts.items():
                row = lookup(name)
                if row is not None:
                    self._values[name] = row.parse(text)
        for name, other in _ALIASES:
            if name not in self.static and other in self.static:
                self.static[name] = self.static[other]
                self._values[name] = self._values[other]
        self._resolve_identity()
        self._resolve_listeners()

    @classmethod
    def load(
        cls, file: Path | None = None, overrides: Mapping[str, str] | None = None
    ) -> NodeConfig:
        """Return the configuration to start a node with.

        As `read`, and raises ConfigError too when the configuration promises something unsupported,
        has values that do not go together, or when clients could not reach a listener.
        """
        from barnabas.config.unsupported import refuse_unsupported, warnings_of
        from barnabas.config.value_rules import check_values

        config = cls.read(file, overrides)
        refuse_unsupported(config)
        check_values(config)
        if config.get("advertised.listeners") is None:
            check_reachable(config.broker_listeners, _host_name, _addresses)
        given = config.static if file else overrides or {}
        config.warnings = (*config.warnings, *warnings_of(config, given))
        return config

    @classmethod
    def read(
        cls, file: Path | None = None, overrides: Mapping[str, str] | None = None
    ) -> NodeConfig:
        """Return the values of a file over Kafka's defaults; without one, a single node's values.

        `overrides` are `--set` pairs: they win, and an unknown name among them is an error.
        Raises ConfigError when a name or value is invalid.
        """
        warnings: tuple[str, ...] = ()
        if file is None:
            static = dict(SINGLE_NODE)
        else:
            from barnabas.config import properties_file

            static = properties_file.read(file)
            warnings = tuple(
                f"{file}: {unknown_property(name)} It is ignored."
                for name in static
                if not is_known(name)
            )
        for name, text in (overrides or {}).items():
            if not is_known(name):
                raise ConfigError(unknown_property(name), name=name)
            _refuse_other_types(name, text)
            static[name] = text
        if static.get("config.providers"):
            from barnabas.config.value_providers import resolved_properties

            static = resolved_properties(static, os.environ)
        return cls(static, warnings=warnings)

    def with_dynamic(
        self, cluster_dynamic: Mapping[str, str], broker_dynamic: Mapping[str, str]
    ) -> NodeConfig:
        """Return the configuration with these dynamic broker properties.

        `broker_dynamic`, for this broker, wins over `cluster_dynamic`, for all brokers.
        """
        return NodeConfig(
            self.static,
            cluster_dynamic=cluster_dynamic,
            broker_dynamic=broker_dynamic,
            warnings=self.warnings,
        )

    def cordoned_log_dirs(self) -> tuple[Path, ...]:
        """Return the directories that get no new partitions (KIP-1066).

        Raises ConfigError when one of them is not in log.dirs. Other nodes have other directories,
        so only the broker itself checks it.
        """
        name = "cordoned.log.dirs"
        stated: tuple[str, ...] = tuple(self.get(name) or ())
        if stated == ("*",):
            return self.log_dirs
        directories = tuple(Path(text) for text in stated)
        unknown = [text for text in stated if Path(text) not in self.log_dirs]
        if unknown:
            raise ConfigError(
                f"Invalid value {','.join(stated)} for configuration {name}: {unknown[0]} is not "
                "one of log.dirs; give directories of log.dirs, or only *",
                name=name,
            )
        return directories

    def get(self, name: str) -> Any:
        """Return the effective value, parsed. Raises KeyError for an unknown name."""
        try:
            return self._values[name]
        except KeyError:
            row = lookup(name)
            if row is None:
                raise
            return None if row.required else row.default

    __getitem__ = get

    def is_set(self, name: str) -> bool:
        """Return True when the file, an override or a dynamic value sets the property."""
        return name in self._values

    def get_int(self, name: str) -> int:
        """Return an integer. Raises TypeError when the property is not an integer or not set."""
        value = self.get(name)
        if type(value) is not int:
            raise TypeError(f"{name} is not an integer: {value!r}")
        return value

    def get_bool(self, name: str) -> bool:
        """Return a boolean. Raises TypeError when the property is not a boolean."""
        value = self.get(name)
        if type(value) is not bool:
            raise TypeError(f"{name} is not a boolean: {value!r}")
        return value

    def get_str(self, name: str) -> str:
        """Return a string. Raises TypeError when the property is not a string or not set."""
        value = self.get(name)
        if type(value) is not str:
            raise TypeError(f"{name} is not a string: {value!r}")
        return value

    @property
    def topic_defaults(self) -> Mapping[str, Any]:
        """The values of all topic properties for a topic without overrides."""
        if self._topic_defaults is None:
            from barnabas.config.topic_config import broker_values

            self._topic_defaults = broker_values(self)
        return self._topic_defaults

    @property
    def is_single_node(self) -> bool:
        """True when the configuration names no other controller: the node leads its own quorum."""
        return self.is_broker and self.is_controller and not self.names_other_controllers

    @property
    def names_other_controllers(self) -> bool:
        """True when the configuration names a controller that is not this node."""
        servers = self.get("controller.quorum.bootstrap.servers")
        own = {
            f"{host}:{each.port}"
            for each in (*self.controller_listeners, *self.advertised_controller_listeners)
            for host in (each.host, "localhost", "127.0.0.1")
        }
        voters = {int(text.partition("@")[0]) for text in self.get("controller.quorum.voters")}
        return not own.issuperset(servers) or not voters <= {self.node_id}

    def _resolve_identity(self) -> None:
        roles = self.get("process.roles")
        if roles is None:
            raise _missing("process.roles", "broker,controller for a single node")
        if self._values.get("node.id") is None:
            raise _missing("node.id", "an integer that no other node has")
        if self.get("broker.id") != self.get("node.id"):
            raise ConfigError(
                f"Invalid value {self.get('broker.id')} for configuration broker.id: it must "
                f"equal node.id, which is {self.get('node.id')}",
                name="broker.id",
            )
        self.process_roles: tuple[str, ...] = roles
        self.node_id: int = self.get("node.id")
        self.is_broker = "broker" in roles
        self.is_controller = "controller" in roles
        self.rack: str | None = self.get("broker.rack")
        directories = self.get("log.dirs") or self.get("log.dir")
        self.log_dirs: tuple[Path, ...] = tuple(Path(text) for text in directories)
        metadata_dir = self.get("metadata.log.dir")
        self.metadata_log_dir: Path = Path(metadata_dir) if metadata_dir else self.log_dirs[0]

    def _resolve_listeners(self) -> None:
        names = self.get("controller.listener.names")
        if names is None:
            raise _missing("controller.listener.names", "CONTROLLER, say")
        self.controller_listener_names: tuple[str, ...] = tuple(n.strip().upper() for n in names)
        protocols = parse_protocol_map(self.get("listener.security.protocol.map"))
        if "listener.security.protocol.map" not in self._values:
            # Kafka's default for a controller listener that the map leaves out (KIP-631).
            for name in self.controller_listener_names:
                protocols.setdefault(name, "PLAINTEXT")
        self.security_protocols: Mapping[str, str] = protocols
        texts = self.get("listeners")
        self.listeners = parse_listeners("listeners", texts, protocols)
        check_distinct(self.listeners, ",".join(texts))
        controllers = set(self.controller_listener_names)
        self.broker_listeners = tuple(x for x in self.listeners if x.name not in controllers)
        self.controller_listeners = tuple(x for x in self.listeners if x.name in controllers)
        self._check_roles()
        advertised = self.get("advertised.listeners")
        given = None
        if advertised is not None:
            given = parse_listeners("advertised.listeners", advertised, protocols)
        everything = advertise(self.listeners, given, _host_name)
        self.advertised_listeners = tuple(x for x in everything if x.name not in controllers)
        # A controller without an advertised address is reached at its listener.
        named = tuple(x for x in everything if x.name in controllers)
        self.advertised_controller_listeners = named or advertise(
            self.controller_listeners, None, _host_name
        )
        self._check_inter_broker()

    def _check_roles(self) -> None:
        if self.is_broker and not self.broker_listeners:
            raise ConfigError(
                "Invalid configuration listeners: a broker needs a listener in addition to "
                f"{', '.join(self.controller_listener_names)} (controller.listener.names)",
                name="listeners",
            )
        if self.is_controller and not self.controller_listeners:
            raise ConfigError(
                "Invalid configuration listeners: a controller needs a listener named "
                f"{self.controller_listener_names[0]} (controller.listener.names), "
                f"as {self.controller_listener_names[0]}://127.0.0.1:9093",
                name="listeners",
            )
        if not self.is_controller and self.controller_listeners:
            raise ConfigError(
                f"Invalid configuration listeners: {self.controller_listeners[0].name} "
                "(controller.listener.names) is for controllers, and process.roles is broker",
                name="listeners",
            )
        if not self.is_broker and self.broker_listeners:
            raise ConfigError(
                f"Invalid configuration listeners: {self.broker_listeners[0].name} is for clients "
                "of brokers, and process.roles is controller",
                name="listeners",
            )
        self._check_voters()

    def _check_voters(self) -> None:
        voters = {int(text.partition("@")[0]) for text in self.get("controller.quorum.voters")}
        if voters and self.is_controller != (self.node_id in voters):
            fault = "a controller and must" if self.is_controller else "no controller and must not"
            raise ConfigError(
                f"Invalid configuration controller.quorum.voters: node.id {self.node_id} is "
                f"{fault} be among the voters {sorted(voters)}",
                name="controller.quorum.voters",
            )
        known = voters or self.get("controller.quorum.bootstrap.servers")
        if not known and not (self.is_broker and self.is_controller):
            raise ConfigError(
                "Missing configuration controller.quorum.bootstrap.servers: a node with "
                f"process.roles={','.join(self.process_roles)} needs controllers as host:port",
                name="controller.quorum.bootstrap.servers",
            )

    def _check_inter_broker(self) -> None:
        given = self.get("inter.broker.listener.name")
        name = (given or self.get("security.inter.broker.protocol")).upper()
        self.inter_broker_listener_name: str = name
        if self.is_broker and name not in {x.name for x in self.advertised_listeners}:
            known = ", ".join(x.name for x in self.advertised_listeners)
            raise ConfigError(
                f"Invalid value {name} for configuration inter.broker.listener.name: brokers "
                f"must reach each other through an advertised listener, one of: {known}",
                name="inter.broker.listener.name",
            )


def lookup(name: str) -> Property | None:
    """Return a broker property's row; None when there is no such property.

    The name may have the form `listener.name.<listener>.<property>`, or
    `listener.name.<listener>.<SASL mechanism>.<property>`.
    """
    row = BROKER_PROPERTIES.get(name) or DYNAMIC_ONLY_PROPERTIES.get(name)
    if row is None and name.startswith("listener.name."):
        rest = name.split(".", 3)[-1]
        return BROKER_PROPERTIES.get(rest) or BROKER_PROPERTIES.get(rest.partition(".")[2])
    return row


def is_known(name: str) -> bool:
    """Return True when a file may set the property: a row, or a plugin's under an open prefix."""
    return lookup(name) is not None or name.startswith(_OPEN_PREFIXES)


def unknown_property(name: str, known: Mapping[str, Property] = BROKER_PROPERTIES) -> str:
    """Return a line that names an unknown property and the closest known one."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.75)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"There is no property {name}.{meant}"


def _refuse_other_types(name: str, value: object) -> None:
    if not isinstance(value, str):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        raise ConfigError(
            f"The value of {name} is {value!r}: give a string, as {text!r}", name=name
        )


def _missing(name: str, example: str) -> ConfigError:
    return ConfigError(f"Missing required configuration {name}: set it ({example})", name=name)


@functools.cache
def _host_name() -> str:
    """Return this machine's name; cached, as the resolver may block."""
    import socket

    return socket.getfqdn()


@functools.cache
def _addresses(host: str) -> tuple[str, ...]:
    """Return the IP addresses of a host; none when it cannot be resolved."""
    import socket

    try:
        return tuple(str(found[4][0]) for found in socket.getaddrinfo(host, None))
    except OSError:
        return ()
