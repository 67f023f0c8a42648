"""The answers of DescribeConfigs: each property's effective value, its source and its synonyms.

The rules are those of Kafka's `ConfigHelper` and `DynamicBrokerConfig.brokerConfigSynonyms`,
with one consequence that surprises: where `log.retention.hours` is set and `log.retention.ms`
is not, `retention.ms` has the value of the former, but DEFAULT_CONFIG as its source.

Properties are sorted by name. Kafka sorts them in CreateTopics responses; its DescribeConfigs
responses have the order of a hash map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.config.node_config import lookup
from barnabas.config.properties import BROKER_PROPERTIES, TOPIC_PROPERTIES
from barnabas.config.properties.client_metrics_properties import CLIENT_METRICS_PROPERTIES
from barnabas.config.properties.group_properties import GROUP_PROPERTIES
from barnabas.config.schema import Source, to_text
from barnabas.config.topic_config import TopicConfig
from barnabas.config.unsupported import note_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from barnabas.config.node_config import NodeConfig
    from barnabas.config.schema import Property

# The authorizer's own, which Kafka describes as unknown ones of the node's file.
_OF_PLUGINS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
# Broker properties that stand in for each other, the strongest first.
_CHAINS = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
_CHAIN_OF: Mapping[str, tuple[str, ...]] = {
    name: chain for chain in _CHAINS for name in chain if name != "log.flush.scheduler.interval.ms"
}


class Synonym(NamedTuple):
    """One value that a property has, or would have if a stronger one were not there."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """One property in an answer. `type` is 0 (unknown) for a name that no table holds."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    type: int
    synonyms: tuple[Synonym, ...]
    documentation: str


def describe_topic(
    topic: TopicConfig, node: NodeConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a topic; `names` None means all properties but the internal ones.

    Properties that Kafka does not have are then described only where they are set.
    """
    entries: list[ConfigEntry] = []
    for name in sorted({*TOPIC_PROPERTIES, *topic.overrides}):
        if names is None and name.startswith("barnabas.") and name not in topic.overrides:
            continue
        row = TOPIC_PROPERTIES[name]
        if _wanted(row, names, topic.overrides):
            synonyms = _broker_synonyms(row.synonyms[0][0], node) if row.synonyms else []
            own = topic.overrides.get(name)
            if own is not None:
                synonyms.insert(0, Synonym(name, own, Source.DYNAMIC_TOPIC_CONFIG))
            entries.append(_entry(row, topic.get(name), synonyms))
    return entries


def describe_broker(node: NodeConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Describe the node itself: every property, and unknown ones of its file."""
    given = {**node.static, **node.cluster_dynamic, **node.broker_dynamic}
    entries: list[ConfigEntry] = []
    for name in sorted({*BROKER_PROPERTIES.keys() - _OF_PLUGINS, *given}):
        row = None if name in _OF_PLUGINS else lookup(name)
        if row is None:
            if names is None or name in names:
                synonyms = _hidden(_broker_synonyms(name, node))
                source = synonyms[0].source if synonyms else Source.DEFAULT_CONFIG
                entries.append(ConfigEntry(name, None, source, True, True, 0, synonyms, ""))
        elif _wanted(row, names, given, name):
            value = node.get(name)
            of_listener = name != row.name  # Kafka calls it read-only, although clients may set it
            read_only = of_listener or row.dynamic.value == "read-only"
            entry = _entry(row, value, _broker_synonyms(name, node), read_only=read_only)
            entries.append(entry._replace(name=name))
    return entries


def describe_broker_defaults(
    node: NodeConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe the cluster's default for brokers (the resource without a name)."""
    entries: list[ConfigEntry] = []
    for name in sorted(node.cluster_dynamic):
        row, text = lookup(name), node.cluster_dynamic[name]
        if names is not None and name not in names:
            continue
        synonyms = [Synonym(name, text, Source.DYNAMIC_DEFAULT_BROKER_CONFIG)]
        if row is None:
            source = synonyms[0].source
            entries.append(ConfigEntry(name, None, source, True, True, 0, _hidden(synonyms), ""))
        else:
            read_only = row.dynamic.value == "read-only"
            entries.append(_entry(row, row.parse(text), synonyms, read_only=read_only))
    return entries


def describe_group(
    overrides: Mapping[str, str], node: NodeConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a group's properties, over those of the broker that stand in for them."""
    entries: list[ConfigEntry] = []
    for name in sorted({*GROUP_PROPERTIES, *overrides}):
        row = GROUP_PROPERTIES[name]
        if not _wanted(row, names, overrides):
            continue
        broker_name = row.synonyms[0][0] if row.synonyms else None
        value = node.get(broker_name) if broker_name else row.default
        if broker_name:
            synonyms = _broker_synonyms(broker_name, node)
        else:
            synonyms = [Synonym(name, row.default_text, Source.DEFAULT_CONFIG)]
        own = overrides.get(name)
        if own is not None:
            value = row.parse(own)
            synonyms.insert(0, Synonym(name, own, Source.DYNAMIC_GROUP_CONFIG))
        entries.append(_entry(row, value, synonyms))
    return entries


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Describe a client metrics subscription."""
    entries: list[ConfigEntry] = []
    for name in sorted({*CLIENT_METRICS_PROPERTIES, *overrides}):
        row = CLIENT_METRICS_PROPERTIES[name]
        if not _wanted(row, names, overrides):
            continue
        own = overrides.get(name)
        synonyms = [Synonym(name, own, Source.DYNAMIC_CLIENT_METRICS_CONFIG)] if own else []
        entries.append(_entry(row, row.default if own is None else row.parse(own), synonyms))
    return entries


def _wanted(
    row: Property, names: Collection[str] | None, given: Collection[str], name: str | None = None
) -> bool:
    """Return True when a property is described: internal ones only when set or requested."""
    if names is not None:
        return (name or row.name) in names
    return not row.internal or row.name in given


def _entry(
    row: Property, value: Any, synonyms: list[Synonym], *, read_only: bool = False
) -> ConfigEntry:
    secret = row.sensitive
    return ConfigEntry(
        name=row.name,
        value=None if secret else to_text(value),
        source=synonyms[0].source if synonyms else Source.DEFAULT_CONFIG,
        read_only=read_only,
        sensitive=secret,
        type=row.type,
        synonyms=_hidden(synonyms) if secret else tuple(synonyms),
        documentation=" ".join(filter(None, (row.doc, note_of(row)))),
    )


def _hidden(synonyms: list[Synonym]) -> tuple[Synonym, ...]:
    return tuple(synonym._replace(value=None) for synonym in synonyms)


def _broker_synonyms(name: str, node: NodeConfig) -> list[Synonym]:
    """List what sets a broker property, the strongest first, as Kafka orders it.

    What precedes the property's own first value is dropped, as Kafka drops it.
    """
    chain = _CHAIN_OF.get(name, (name,))
    if name.startswith("listener.name."):
        chain = (name, name.split(".", 3)[-1])
    layers = (
        (node.broker_dynamic, Source.DYNAMIC_BROKER_CONFIG),
        (node.cluster_dynamic, Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (node.static, Source.STATIC_BROKER_CONFIG),
    )
    found = [
        Synonym(member, texts[member], source)
        for texts, source in layers
        for member in chain
        if member in texts
    ]
    for member in chain:
        row = None if member in _OF_PLUGINS else BROKER_PROPERTIES.get(member)
        if row is not None and row.default_text is not None:
            found.append(Synonym(member, row.default_text, Source.DEFAULT_CONFIG))
    first = next((place for place, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[first:]
