"""Barnabas: a Kafka server in Python.

Bytes come in through `barnabas.server`, are decoded by `barnabas.protocol`, handled on
`barnabas.log`, `barnabas.cluster` or `barnabas.coordinator`, and leave as encoded responses.
`docs/architecture.md` is the tour of the house.
"""

__version__ = "0.1.0"
