"""Listeners, connections and the requests that wait on them."""

from barnabas.config.properties.vocabulary import (
    CLUSTER_WIDE,
    HIGH,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    STRING,
    P,
)
from barnabas.config.schema import ListOf, Range

# A table, read a row at a time.
# fmt: off
PROPERTIES: tuple[P, ...] = (
    P("num.io.threads", INT, 8, HIGH,
      "Threads that work on requests. Barnabas has one loop: the number is accepted and "
      "described.",
      validator=Range(1), dynamic=CLUSTER_WIDE),
    P("socket.connection.setup.timeout.ms", LONG, 10000, MEDIUM,
      "Milliseconds that this node waits for a connection to be made; each failure in a row "
      "lengthens them."),
    P("socket.connection.setup.timeout.max.ms", LONG, 30000, MEDIUM,
      "Most milliseconds to which repeated failures lengthen that wait."),
    P("early.start.listeners", LIST, None, HIGH,
      "Listeners that open before authorization is ready. Unset, those of the controller.",
      validator=ListOf(empty=True, null=True)),
    P("listeners", LIST, ("PLAINTEXT://:9092",), HIGH,
      "Where the node listens: NAME://host:port, separated by commas. An empty host means "
      "all interfaces, port 0 a free port.",
      validator=ListOf(), dynamic=PER_BROKER, has_effect=True, needs_restart=True),
    P("advertised.listeners", LIST, None, HIGH,
      "The addresses that clients and other nodes are told. Unset, the listeners themselves, "
      "with the machine's name where they listen on all interfaces.",
      validator=ListOf(null=True), has_effect=True),
    P("listener.security.protocol.map", STRING,
      "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
      LOW,
      "The security protocol of each listener name, as NAME:PROTOCOL pairs.",
      dynamic=PER_BROKER, has_effect=True, needs_restart=True),
    P("socket.send.buffer.bytes", INT, 102_400, HIGH,
      "Size of the sockets' send buffers; -1 leaves the system's.",
      has_effect=True),
    P("socket.receive.buffer.bytes", INT, 102_400, HIGH,
      "Size of the sockets' receive buffers; -1 leaves the system's.",
      has_effect=True),
    P("socket.request.max.bytes", INT, 104_857_600, HIGH,
      "Largest request that is read; the connection of a larger one is closed.",
      validator=Range(1), has_effect=True),
    P("socket.listen.backlog.size", INT, 50, MEDIUM,
      "Connections that the system queues before they are accepted.",
      validator=Range(1), has_effect=True),
    P("max.connections.per.ip", INT, INT_MAX, MEDIUM,
      "Most connections from one address; further ones are closed at once.",
      validator=Range(0), dynamic=CLUSTER_WIDE, has_effect=True),
    P("max.connections.per.ip.overrides", STRING, "", MEDIUM,
      "Exceptions to max.connections.per.ip, as address:count pairs.",
      dynamic=CLUSTER_WIDE, has_effect=True),
    P("max.connections", INT, INT_MAX, MEDIUM,
      "Most connections to the node over all listeners.",
      validator=Range(0), dynamic=CLUSTER_WIDE, has_effect=True),
    P("max.connection.creation.rate", INT, INT_MAX, MEDIUM,
      "Most new connections a second.",
      validator=Range(0), dynamic=CLUSTER_WIDE),
    P("connections.max.idle.ms", LONG, 600_000, MEDIUM,
      "Milliseconds without a request after which a connection is closed.",
      has_effect=True),
    P("queued.max.requests", INT, 500, HIGH,
      "Requests that may wait before the network stops reading. Barnabas works on one request "
      "of a connection at a time instead.",
      validator=Range(1)),
    P("queued.max.request.bytes", LONG, -1, MEDIUM,
      "Bytes of waiting requests above which nothing more is read; -1 for no bound."),
    P("num.network.threads", INT, 3, HIGH,
      "Threads that read and write sockets. Barnabas has one loop: the number is accepted and "
      "described.",
      validator=Range(1), dynamic=CLUSTER_WIDE),
    P("inter.broker.listener.name", STRING, None, MEDIUM,
      "The listener on which brokers reach each other; unset, the one named as "
      "security.inter.broker.protocol.",
      is_checked=True),
)
