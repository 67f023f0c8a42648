"""The properties of a client metrics subscription (KIP-714)."""

from barnabas.config.properties.vocabulary import INT, LIST, MEDIUM, P
from barnabas.config.schema import ListOf, Range

# A table, read a row at a time.
# fmt: off
PROPERTIES: tuple[P, ...] = (
    P("metrics", LIST, (), MEDIUM,
      "Prefixes of the metrics that matching clients push; * is all metrics, an empty list none.",
      validator=ListOf(empty=True)),
    P("interval.ms", INT, 300_000, MEDIUM,
      "Milliseconds between two pushes of a matching client.",
      validator=Range(100, 3_600_000)),
    P("match", LIST, (), MEDIUM,
      "Rules name=pattern that select the clients, over client_id, client_instance_id, "
      "client_software_name, client_software_version, client_source_address and "
      "client_source_port.",
      validator=ListOf(empty=True)),
)
# fmt: on

CLIENT_METRICS_PROPERTIES = {row.name: row for row in PROPERTIES}
