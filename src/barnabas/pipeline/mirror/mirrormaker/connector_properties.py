"""The properties of MirrorMaker 2's three connectors: names, types, defaults and order of 4.3.0."""

from typing import Any, Final

from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import (
    ConfigType,
    ConfigValueError,
    ParsedValue,
)
from barnabas.pipeline.definitions.config_validators import OneOf
from barnabas.pipeline.mirror.flow_connector import CONFIGS_EXCLUDED
from barnabas.pipeline.mirror.mirrormaker.client_properties import SASL_KEYS, TLS_KEYS, UNUSED
from barnabas.pipeline.mirror.mirrormaker.replication_policies import DEFAULT_POLICY

MIRROR: Final = "org.apache.kafka.connect.mirror"
DEFAULT_FILTERS: Final = {
    "topic.filter.class": f"{MIRROR}.DefaultTopicFilter",
    "group.filter.class": f"{MIRROR}.DefaultGroupFilter",
    "config.property.filter.class": f"{MIRROR}.DefaultConfigPropertyFilter",
    "forwarding.admin.class": "org.apache.kafka.clients.admin.ForwardingAdmin",
}
SOURCE: Final = "source"
TARGET: Final = "target"
TOPICS_EXCLUDED: Final = (r"mm2.*\.internal", r".*\.replica", "__.*")
GROUPS_EXCLUDED: Final = ("console-consumer-.*", "connect-.*", "__.*")

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_PROTOCOLS: Final = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
"""In the order in which Java's message has them."""
_FOLLOWS: Final = "topics are looked at every 5 seconds, ACLs every minute"
_GROUPS: Final = "groups are looked at for each checkpoint"
_CLIENT: Final = "clients of barnabas have timeouts of requests"
_METRICS: Final = "the runner has metrics of Prometheus"
WITHOUT_EFFECT: Final = {
    "admin.timeout.ms": _CLIENT,
    "consumer.poll.timeout.ms": _CLIENT,
    "metric.reporters": _METRICS,
    "metric.names.formats": _METRICS,
    "config.providers": "the runner has providers; see pipelines.md",
    "refresh.topics.interval.seconds": _FOLLOWS,
    "sync.topic.configs.interval.seconds": _FOLLOWS,
    "sync.topic.acls.interval.seconds": _FOLLOWS,
    "refresh.groups.interval.seconds": _GROUPS,
}
"""Properties that the connectors accept and do not use, each with the reason."""


def _protocol(name: str, value: ParsedValue) -> None:
    if not isinstance(value, str) or value.upper() not in _PROTOCOLS:
        shown = ", ".join(_PROTOCOLS)
        reason = f"String must be one of (case insensitive): {shown}"
        raise ConfigValueError.of(name, value, reason)


def _key(
    name: str, kind: ConfigType, default: Any, text: str, importance: Importance = _LOW
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance, text)


def _class(name: str, text: str) -> ConfigKey:
    return _key(name, ConfigType.CLASS, DEFAULT_FILTERS[name], text)


_METRIC_NAMES: Final = _key("metric.names.formats", ConfigType.LIST, ["legacy"], UNUSED)

_COMMON: Final = (
    _key(
        "enabled",
        ConfigType.BOOLEAN,
        True,
        "Only true is supported: stop or delete the connector instead.",
    ),
    _key(
        "source.cluster.alias",
        ConfigType.STRING,
        NO_DEFAULT,
        "The alias of the cluster to copy from. Properties of its clients have the prefix "
        "source.cluster.",
        _HIGH,
    ),
    _key(
        "target.cluster.alias",
        ConfigType.STRING,
        "target",
        "The alias of the cluster to copy to. Properties of its clients have the prefix "
        "target.cluster.; without target.cluster.bootstrap.servers it is the runner's cluster.",
        _HIGH,
    ),
    _key("admin.timeout.ms", ConfigType.LONG, 60_000, UNUSED),
    _key(
        "replication.policy.class",
        ConfigType.CLASS,
        DEFAULT_POLICY,
        "DefaultReplicationPolicy names topics ALIAS.TOPIC at the target, "
        "IdentityReplicationPolicy keeps their names.",
    ),
    _key(
        "replication.policy.separator",
        ConfigType.STRING,
        ".",
        "The text between the alias and the topic.",
    ),
    _key(
        "replication.policy.internal.topic.separator.enabled",
        ConfigType.BOOLEAN,
        True,
        "True uses the separator in the names of internal topics, too.",
    ),
    _class("forwarding.admin.class", "Only the default is supported."),
    _key(
        "metric.reporters",
        ConfigType.LIST,
        ["org.apache.kafka.common.metrics.JmxReporter"],
        UNUSED,
    ),
    ConfigKey(
        "security.protocol",
        ConfigType.STRING,
        "PLAINTEXT",
        _MEDIUM,
        "The protocol of clients of both clusters.",
        validator=_protocol,
    ),
    _key("config.providers", ConfigType.LIST, [], UNUSED),
    *TLS_KEYS,
    *SASL_KEYS,
)

_LOCATION: Final = ConfigKey(
    "offset-syncs.topic.location",
    ConfigType.STRING,
    SOURCE,
    _LOW,
    "The cluster with the topic of offset syncs: source or target.",
    validator=OneOf((SOURCE, TARGET)),
)
_TOPIC_FILTER: Final = _class("topic.filter.class", "Only the default is supported.")
_TOPICS: Final = _key(
    "topics", ConfigType.LIST, [".*"], "Names or regular expressions of topics to copy.", _HIGH
)
_TOPICS_EXCLUDE: Final = _key(
    "topics.exclude",
    ConfigType.LIST,
    list(TOPICS_EXCLUDED),
    "Names or regular expressions of topics that are left out.",
    _HIGH,
)

SOURCE_DEFINITION: Final = ConfigDef(
    [
        *_COMMON,
        _TOPICS,
        _TOPICS_EXCLUDE,
        _key(
            "config.properties.exclude",
            ConfigType.LIST,
            [each.replace("\\", "") for each in CONFIGS_EXCLUDED],
            "Regular expressions of topic properties that are not copied.",
            _HIGH,
        ),
        _TOPIC_FILTER,
        _class("config.property.filter.class", "Only the default is supported."),
        _key("consumer.poll.timeout.ms", ConfigType.LONG, 1_000, UNUSED),
        _key("refresh.topics.enabled", ConfigType.BOOLEAN, True, "Only true is supported."),
        _key("refresh.topics.interval.seconds", ConfigType.LONG, 600, UNUSED),
        _key("sync.topic.configs.enabled", ConfigType.BOOLEAN, True, "True copies properties."),
        _key("sync.topic.configs.interval.seconds", ConfigType.LONG, 600, UNUSED),
        _key("sync.topic.acls.enabled", ConfigType.BOOLEAN, True, "True copies ACLs of topics."),
        _key("sync.topic.acls.interval.seconds", ConfigType.LONG, 600, UNUSED),
        _key(
            "replication.factor",
            ConfigType.INT,
            2,
            "The replication factor of topics that are created; the target's when it is not set.",
        ),
        _key(
            "offset-syncs.topic.replication.factor",
            ConfigType.SHORT,
            3,
            "The replication factor of that topic; the cluster's when it is not set.",
        ),
        _key("offset.lag.max", ConfigType.LONG, 100, "Records from one offset sync to the next."),
        _LOCATION,
        _key("emit.offset-syncs.enabled", ConfigType.BOOLEAN, True, "True writes offset syncs."),
        _key(
            "heartbeats.replication.enabled",
            ConfigType.BOOLEAN,
            True,
            "True copies the source's topic of heartbeats.",
        ),
        _METRIC_NAMES,
    ]
)

CHECKPOINT_DEFINITION: Final = ConfigDef(
    [
        *_COMMON,
        _key("consumer.poll.timeout.ms", ConfigType.LONG, 1_000, UNUSED),
        _key(
            "groups",
            ConfigType.LIST,
            [".*"],
            "Names or regular expressions of consumer groups.",
            _HIGH,
        ),
        _key(
            "groups.exclude",
            ConfigType.LIST,
            list(GROUPS_EXCLUDED),
            "Names or regular expressions of consumer groups that are left out.",
            _HIGH,
        ),
        _class("group.filter.class", "Only the default is supported."),
        _key("refresh.groups.enabled", ConfigType.BOOLEAN, True, "Only true is supported."),
        _key("refresh.groups.interval.seconds", ConfigType.LONG, 600, UNUSED),
        _key("emit.checkpoints.enabled", ConfigType.BOOLEAN, True, "True writes checkpoints."),
        _key(
            "emit.checkpoints.interval.seconds",
            ConfigType.LONG,
            60,
            "Seconds from one look at the groups to the next.",
        ),
        _key(
            "sync.group.offsets.enabled",
            ConfigType.BOOLEAN,
            False,
            "True writes translated offsets of groups that have no members at the target.",
        ),
        _key(
            "sync.group.offsets.interval.seconds",
            ConfigType.LONG,
            60,
            "Seconds from one write of offsets to the next.",
        ),
        _key(
            "checkpoints.topic.replication.factor",
            ConfigType.SHORT,
            3,
            "The replication factor of that topic; the target's when it is not set.",
        ),
        _LOCATION,
        _TOPIC_FILTER,
        _METRIC_NAMES,
    ]
)
"""The connector also reads `topics` and `topics.exclude`, as the default filter of topics does."""

TOPIC_FILTER_DEFINITION: Final = ConfigDef([_TOPICS, _TOPICS_EXCLUDE])

HEARTBEAT_DEFINITION: Final = ConfigDef(
    [
        *_COMMON,
        _key("emit.heartbeats.enabled", ConfigType.BOOLEAN, True, "True writes heartbeats."),
        _key(
            "emit.heartbeats.interval.seconds",
            ConfigType.LONG,
            1,
            "Seconds from one heartbeat to the next.",
        ),
        _key(
            "heartbeats.topic.replication.factor",
            ConfigType.SHORT,
            3,
            "The replication factor of that topic; the target's when it is not set.",
        ),
    ]
)
