"""The settings that properties of MirrorMaker 2's connectors make."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from barnabas.client.admin_calls import BROKER_DEFAULT
from barnabas.client.client_config import ClientConfig
from barnabas.config import ConfigError
from barnabas.pipeline.definitions.config_types import ConfigValueError, ParsedValue
from barnabas.pipeline.mirror.flow_connector import (
    BOOTSTRAP,
    FAST,
    FlowSettings,
    PositionsTopic,
    SyncTopic,
    TopicFilter,
)
from barnabas.pipeline.mirror.mirrormaker.connector_properties import (
    CHECKPOINT_DEFINITION,
    DEFAULT_FILTERS,
    HEARTBEAT_DEFINITION,
    SOURCE,
    SOURCE_DEFINITION,
    TOPIC_FILTER_DEFINITION,
)
from barnabas.pipeline.mirror.mirrormaker.replication_policies import (
    IDENTITY_POLICY,
    POLICIES,
    ReplicationPolicy,
)

DEDICATED_CONNECTOR: Final = "MirrorSourceConnector"
"""The connector's name in a dedicated MirrorMaker 2."""
DEDICATED_TOPICS: Final = "mm2-offsets."
"""The beginning of the names of its topics with positions."""
_SIDES: Final = {"source": ("consumer", "admin"), "target": ("producer", "admin")}
SECURITY: Final = ("security.protocol", "ssl.", "sasl.")
"""Properties of clients that may be written without a prefix, for both clusters."""


@attrs.frozen
class ConnectorSettings:
    """The part that the three connectors have in common."""

    name: str
    target_alias: str
    policy: ReplicationPolicy
    source: ClientConfig = attrs.field(repr=False)
    target: ClientConfig = attrs.field(repr=False)


@attrs.frozen
class CheckpointSettings:
    """The settings of a checkpoint connector."""

    common: ConnectorSettings
    topics: TopicFilter
    groups: tuple[str, ...]
    groups_exclude: tuple[str, ...]
    syncs: SyncTopic
    emits: bool
    interval_s: float
    writes_groups: bool
    write_interval_s: float
    replication_factor: int


@attrs.frozen
class HeartbeatSettings:
    """The settings of a heartbeat connector."""

    common: ConnectorSettings
    emits: bool
    interval_s: float
    replication_factor: int


def source_settings(
    properties: Mapping[str, str], runner: Mapping[str, str], offsets_topic: str = ""
) -> FlowSettings:
    """Return the flow of a source connector; `runner` has the properties of the runner's clients.

    `offsets_topic` is the topic of Connect with the connector's positions. Raises ConfigValueError.
    """
    parsed = SOURCE_DEFINITION.parse(properties)
    common = _common(properties, parsed, runner)
    step = _number(parsed["offset.lag.max"]) or 1
    return FlowSettings(
        common.name,
        common.source,
        common.target,
        is_identical=False,
        copies_groups=False,
        copies_configs=parsed["sync.topic.configs.enabled"] is True,
        configs_exclude=_list(parsed["config.properties.exclude"]),
        copies_acls=parsed["sync.topic.acls.enabled"] is True,
        policy=common.policy,
        sync_step=step if parsed["emit.offset-syncs.enabled"] is True else 0,
        sync_topic=_sync_topic(common, parsed, properties),
        topic_filter=_filter(properties, common, parsed["heartbeats.replication.enabled"] is True),
        replication_factor=_factor(properties, "replication.factor"),
        positions_topic=_positions(common, offsets_topic),
    )


def checkpoint_settings(
    properties: Mapping[str, str], runner: Mapping[str, str]
) -> CheckpointSettings:
    """Return the settings of a checkpoint connector. Raises ConfigValueError."""
    parsed = CHECKPOINT_DEFINITION.parse(properties)
    common = _common(properties, parsed, runner)
    return CheckpointSettings(
        common,
        _filter(properties, common, has_heartbeats=False),
        _list(parsed["groups"]),
        _list(parsed["groups.exclude"]),
        _sync_topic(common, parsed, properties),
        parsed["emit.checkpoints.enabled"] is True,
        _number(parsed["emit.checkpoints.interval.seconds"]),
        parsed["sync.group.offsets.enabled"] is True,
        _number(parsed["sync.group.offsets.interval.seconds"]),
        _factor(properties, "checkpoints.topic.replication.factor"),
    )


def heartbeat_settings(
    properties: Mapping[str, str], runner: Mapping[str, str]
) -> HeartbeatSettings:
    """Return the settings of a heartbeat connector. Raises ConfigValueError."""
    parsed = HEARTBEAT_DEFINITION.parse(properties)
    return HeartbeatSettings(
        _common(properties, parsed, runner),
        parsed["emit.heartbeats.enabled"] is True,
        _number(parsed["emit.heartbeats.interval.seconds"]),
        _factor(properties, "heartbeats.topic.replication.factor"),
    )


def unsupported(properties: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
    """Yield properties with values that barnabas does not support, each with a message."""
    for name, default in DEFAULT_FILTERS.items():
        value = properties.get(name, default)
        if value not in (default, default.rpartition(".")[2]):
            yield name, _invalid(name, value, f"Only {default} is supported")
    policy = properties.get("replication.policy.class", POLICIES[0])
    if policy not in POLICIES:
        shown = " and ".join(POLICIES)
        yield (
            "replication.policy.class",
            _invalid("replication.policy.class", policy, f"Only {shown} are supported"),
        )
    if properties.get("enabled") is False:
        yield "enabled", _invalid("enabled", "false", "Stop or delete the connector instead")
    for name in ("refresh.topics.enabled", "refresh.groups.enabled"):
        if properties.get(name) is False:
            reason = "New topics and groups are always taken up: only true is supported"
            yield name, _invalid(name, "false", reason)


def _invalid(name: str, value: object, reason: str) -> str:
    return str(ConfigValueError.of(name, str(value), reason))


def _common(
    properties: Mapping[str, str], parsed: Mapping[str, ParsedValue], runner: Mapping[str, str]
) -> ConnectorSettings:
    for _, message in unsupported(parsed):
        raise ConfigValueError(message)
    policy = ReplicationPolicy(
        str(parsed["source.cluster.alias"]),
        parsed["replication.policy.class"] == IDENTITY_POLICY,
        str(parsed["replication.policy.separator"]),
        parsed["replication.policy.internal.topic.separator.enabled"] is True,
    )
    return ConnectorSettings(
        properties.get("name", ""),
        str(parsed["target.cluster.alias"]),
        policy,
        _client(properties, "source", {}),
        _client(properties, "target", runner),
    )


def _client(properties: Mapping[str, str], side: str, runner: Mapping[str, str]) -> ClientConfig:
    """Return the settings of one side's clients, with the prefixes of MirrorMaker 2.

    Raises ConfigValueError.
    """
    shared = {name: value for name, value in properties.items() if name.startswith(SECURITY)}
    own = _with_prefix(properties, f"{side}.cluster.")
    own.pop("alias", None)
    name = f"{side}.cluster.{BOOTSTRAP}"
    defaults: Mapping[str, str] = shared if own.get(BOOTSTRAP) else {**runner, **shared}
    if not own.get(BOOTSTRAP) and BOOTSTRAP not in runner:
        raise ConfigValueError.of(name, "", "A connector needs brokers: HOST:PORT")
    for client in _SIDES[side]:
        own |= _with_prefix(properties, f"{client}.")
        own |= _with_prefix(properties, f"{side}.{client}.")
    own = {key: value for key, value in own.items() if value}
    try:
        client_id = {"client.id": properties.get("name", "")}
        return ClientConfig.from_properties({**FAST, **defaults, **own, **client_id})
    except ConfigError as error:
        raise ConfigValueError.of(name, own.get(BOOTSTRAP, ""), str(error)) from None


def _sync_topic(
    common: ConnectorSettings, parsed: Mapping[str, ParsedValue], properties: Mapping[str, str]
) -> SyncTopic:
    at_source = parsed["offset-syncs.topic.location"] == SOURCE
    other = common.target_alias if at_source else common.policy.source
    factor = _factor(properties, "offset-syncs.topic.replication.factor")
    return SyncTopic(common.policy.offset_syncs_topic(other), at_source, factor)


def _filter(
    properties: Mapping[str, str], common: ConnectorSettings, has_heartbeats: bool
) -> TopicFilter:
    parsed = TOPIC_FILTER_DEFINITION.parse(properties)
    topics, excluded = _list(parsed["topics"]), _list(parsed["topics.exclude"])
    for pattern in (*topics, *excluded):
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigValueError.of("topics", pattern, f"Invalid regex: {error}") from None
    return TopicFilter(topics, excluded, common.policy, common.target_alias, has_heartbeats)


def _positions(common: ConnectorSettings, offsets_topic: str) -> PositionsTopic | None:
    if not offsets_topic:
        return None
    names = (DEDICATED_CONNECTOR, common.name)
    if not offsets_topic.startswith(DEDICATED_TOPICS):
        names = (common.name, DEDICATED_CONNECTOR)
    return PositionsTopic(offsets_topic, common.policy.source, names)


def _with_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix)
    }


def _factor(properties: Mapping[str, str], name: str) -> int:
    """Return a replication factor that was given; else the cluster's default is used."""
    return int(properties[name]) if properties.get(name) else BROKER_DEFAULT


def _list(value: ParsedValue) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _number(value: ParsedValue) -> int:
    return value if isinstance(value, int) else 0
