"""Properties that only barnabas has."""

from barnabas.config.properties.vocabulary import BOOLEAN, INT, LONG, LOW, MEDIUM, STRING, P
from barnabas.config.schema import OneOf, Range

# A table, read a row at a time.
# fmt: off
PROPERTIES: tuple[P, ...] = (
    P("barnabas.validate.records", BOOLEAN, False, MEDIUM,
      "Validate every record of a produced batch, as Kafka does, instead of its header only.",
      has_effect=True),
    P("barnabas.decompression.max.bytes", INT, 268_435_456, LOW,
      "Largest size of a decompressed batch whose records must be read; a larger one is "
      "refused.",
      validator=Range(1024), has_effect=True),
    P("barnabas.metrics.port", INT, -1, MEDIUM,
      "Port of the HTTP endpoint with /metrics for Prometheus and /health; 0 is any free port, "
      "-1 disables the endpoint.",
      validator=Range(-1, 65_535), has_effect=True),
    P("barnabas.metrics.host", STRING, "127.0.0.1", MEDIUM,
      "Address on which the metrics endpoint listens.",
      has_effect=True),
    P("barnabas.authentication.timeout.ms", INT, 30_000, MEDIUM,
      "Milliseconds from accepting a connection until its TLS handshake and its SASL "
      "authentication have to be complete.",
      validator=Range(1), has_effect=True),
    P("barnabas.slow.request.ms", LONG, 1000, MEDIUM,
      "Requests that keep the node busy for at least these milliseconds are logged; -1 logs "
      "none. Time in which a request only waits (for data, for members) does not count.",
      validator=Range(-1), has_effect=True),
    P("barnabas.log.level", STRING, "info", MEDIUM,
      "Lowest level of the node's log lines.",
      validator=OneOf("debug", "info", "warning", "error"), has_effect=True),
    P("barnabas.log.format", STRING, "text", MEDIUM,
      "Format of the node's log lines: text or json.",
      validator=OneOf("text", "json"), has_effect=True),
    P("barnabas.scrub.interval.ms", LONG, -1, LOW,
      "Milliseconds between rounds in which a helper process reads all closed segments and checks "
      "their batches' crcs, to find bit rot before a consumer does (604800000 is a "
      "week). The first round starts after ten minutes at most; -1 disables it.",
      validator=Range(-1), has_effect=True),
    P("barnabas.scrub.bytes.per.second", LONG, 10_485_760, LOW,
      "Bytes per second that a round reads.",
      validator=Range(1), has_effect=True),
    P("barnabas.peer.bind.address", STRING, None, LOW,
      "Local address of this node's connections to other nodes. For tests: a proxy identifies "
      "nodes of one machine by it.",
      internal=True, has_effect=True),
    P("barnabas.unauthenticated.connections.max", INT, 1000, LOW,
      "Connections of a listener with TLS or SASL that may be unauthenticated at a time; a further "
      "one closes the oldest of them.",
      validator=Range(1), has_effect=True),
    P("barnabas.open.files.max", INT, 0, LOW,
      "Files that the logs keep open at once; 0 takes what the system's limit leaves.",
      validator=Range(0)),
)
