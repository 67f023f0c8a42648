"""The table: every property of Kafka 4.3 and of barnabas, each declared once.

One module per subject, one row per property: Kafka's name, type, default and importance, its
documentation, its validator, whether it is dynamic, and whether it has an effect in barnabas.
Nothing else belongs here: `barnabas.config` reads the rows to parse files, to answer
DescribeConfigs and to write `docs/configuration.md`. The tables of groups and of client metrics are
imported where they are used: a start needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.properties import (
    barnabas_properties,
    coordinator_properties,
    network_properties,
    node_properties,
    quota_properties,
    replication_properties,
    security_properties,
    storage_properties,
    tiered_storage_properties,
    topic_properties,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.config.schema import Property

SUBJECTS = (
    node_properties,
    network_properties,
    storage_properties,
    replication_properties,
    coordinator_properties,
    security_properties,
    quota_properties,
    tiered_storage_properties,
    barnabas_properties,
)

BROKER_PROPERTIES: Mapping[str, Property] = {
    row.name: row for subject in SUBJECTS for row in subject.PROPERTIES
}
TOPIC_PROPERTIES: Mapping[str, Property] = {row.name: row for row in topic_properties.PROPERTIES}

# Set by AlterConfigs alone, never in a file: the rates of throttled replication.
DYNAMIC_ONLY_PROPERTIES: Mapping[str, Property] = {
    row.name: row for row in replication_properties.DYNAMIC_ONLY
}
