"""The connector of flows: its properties, and the settings that they make.

Properties that MirrorMaker 2 has under the same name mean the same.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from barnabas import __version__
from barnabas.client.admin_calls import BROKER_DEFAULT
from barnabas.client.client_config import ClientConfig
from barnabas.config import ConfigError
from barnabas.pipeline.connect.unused_properties import DELIVERY, SLICE
from barnabas.pipeline.definitions.config_def import ConfigDef, ConfigKey, Importance, Width
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import OneOf, regex
from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.mirrormaker.replication_policies import ReplicationPolicy

SYNC_STEP: Final = 100
"""The default of MirrorMaker 2's property offset.lag.max."""
SOURCE: Final = "source."
TARGET: Final = "target."
BOOTSTRAP: Final = "bootstrap.servers"
OFFSETS: Final = "offsets"
IDENTICAL: Final = "identical"
ASSIGNED: Final = "assigned"
GROUPS: Final = "groups"
GROUPS_EXCLUDE: Final = "groups.exclude"
SYNC_CONFIGS: Final = "sync.topic.configs.enabled"
SYNC_GROUPS: Final = "sync.group.offsets.enabled"
SYNC_ACLS: Final = "sync.topic.acls.enabled"
TAILS: Final = "tail.copies.enabled"
CONFIGS_EXCLUDE: Final = "config.properties.exclude"

CONFIGS_EXCLUDED: Final = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"log\.message\.timestamp\.before\.max\.ms",
    r"log\.message\.timestamp\.after\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)
WITHOUT_EFFECT: Final = {
    DELIVERY: "it delivers exactly once",
    SLICE: "it copies ranges of offsets; set trigger.ms",
    "batch.records.max": "it copies whole batches; set trigger.ms",
    "records.per.second.max": "it copies whole batches; a quota of the client limits it",
    "transforms": "it copies batches without decoding them; use barnabas.TopicCopyConnector",
}
_GROUPS_EXCLUDED: Final = ("console-consumer-.*", "connect-.*", "mirror-.*", "__.*")
_FLOW: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
FAST: Final = {"retry.backoff.ms": "20", "reconnect.backoff.ms": "20"}
_GROUP: Final = "Mirror"


def _patterns(name: str, value: ParsedValue) -> None:
    for each in value if isinstance(value, list) else ():
        regex(name, each)


def _key(
    name: str, kind: ConfigType, default: Any, order: int, text: str, title: str, **more: Any
) -> ConfigKey:
    return ConfigKey(
        name,
        kind,
        default,
        Importance.MEDIUM,
        text,
        group=_GROUP,
        order_in_group=order,
        width=Width.LONG,
        display_name=title,
        **more,
    )


DEFINITION: Final = ConfigDef(
    [
        _key(
            SOURCE + BOOTSTRAP,
            ConfigType.STRING,
            "",
            1,
            "Brokers of the cluster to copy from. Other properties of its clients have the prefix "
            "source., such as source.security.protocol.",
            "Source cluster",
        ),
        _key(
            TARGET + BOOTSTRAP,
            ConfigType.STRING,
            "",
            2,
            "Brokers of the cluster to copy to; empty for the cluster of the runner. Other "
            "properties of its clients have the prefix target.",
            "Target cluster",
        ),
        _key(
            OFFSETS,
            ConfigType.STRING,
            IDENTICAL,
            3,
            "identical keeps the offsets of the source, which needs barnabas as the target; "
            "assigned leaves them to the target, as every Kafka does.",
            "Offsets",
            validator=OneOf((IDENTICAL, ASSIGNED)),
        ),
        _key(
            GROUPS,
            ConfigType.LIST,
            [".*"],
            4,
            "Regular expressions of consumer groups whose offsets are copied.",
            "Groups",
            validator=_patterns,
        ),
        _key(
            GROUPS_EXCLUDE,
            ConfigType.LIST,
            list(_GROUPS_EXCLUDED),
            5,
            "Regular expressions of consumer groups that are left out.",
            "Groups left out",
            validator=_patterns,
        ),
        _key(
            SYNC_CONFIGS,
            ConfigType.BOOLEAN,
            True,
            6,
            "True keeps the properties of topics equal, except those that "
            f"{CONFIGS_EXCLUDE} names.",
            "Copy topic properties",
        ),
        _key(
            SYNC_GROUPS,
            ConfigType.BOOLEAN,
            True,
            7,
            "True copies the offsets of groups that have no members at the target; translated, "
            "with assigned offsets.",
            "Copy group offsets",
        ),
        _key(
            CONFIGS_EXCLUDE,
            ConfigType.LIST,
            list(CONFIGS_EXCLUDED),
            8,
            "Regular expressions of topic properties that are not copied.",
            "Topic properties left out",
            validator=_patterns,
        ),
        _key(
            SYNC_ACLS,
            ConfigType.BOOLEAN,
            True,
            9,
            "True copies the ACLs of topics, without the right to write, where both clusters have "
            "an authorizer.",
            "Copy ACLs of topics",
        ),
        _key(
            TAILS,
            ConfigType.BOOLEAN,
            True,
            10,
            "True lets the runner itself copy what arrives once the flow has caught up, within "
            "some milliseconds. False leaves all copies to tasks of Spark, which start every "
            "trigger.ms.",
            "Copy new records in the runner",
        ),
    ]
)


@attrs.frozen
class SyncTopic:
    """The topic of offset syncs."""

    name: str
    at_source: bool
    replication_factor: int = BROKER_DEFAULT


@attrs.frozen
class PositionsTopic:
    """A topic in which a flow finds, and leaves, positions of MirrorMaker 2."""

    name: str
    cluster: str
    """The alias of the source."""
    connectors: tuple[str, ...]
    """The names of connectors whose positions are the flow's; a new key has the first."""


@attrs.frozen
class TopicFilter:
    """Selects topics as MirrorMaker 2's source connector does."""

    topics: tuple[str, ...]
    excluded: tuple[str, ...]
    policy: ReplicationPolicy
    target: str
    """The alias of the target: topics that come from there are left out."""
    has_heartbeats: bool = True
    """True when the source's topics of heartbeats are selected."""

    def accepts(self, topic: str) -> bool:
        """True for a topic that is copied."""
        policy = self.policy
        if policy.is_internal(topic) or policy.is_cycle(topic, self.target):
            return False
        if self.has_heartbeats and policy.is_heartbeats(topic):
            return True
        return _matches(self.topics, topic) and not _matches(self.excluded, topic)


def _matches(patterns: Sequence[str], topic: str) -> bool:
    return any(re.fullmatch(pattern, topic) for pattern in patterns)


@attrs.frozen
class FlowSettings:
    """The properties of a flow, checked."""

    flow: str
    source: ClientConfig = attrs.field(repr=False)
    target: ClientConfig = attrs.field(repr=False)
    is_identical: bool
    groups: tuple[str, ...] = (".*",)
    groups_exclude: tuple[str, ...] = _GROUPS_EXCLUDED
    copies_configs: bool = True
    copies_groups: bool = True
    configs_exclude: tuple[str, ...] = CONFIGS_EXCLUDED
    copies_acls: bool = True
    policy: ReplicationPolicy | None = None
    """The names of topics at the target; None when they keep their names."""
    sync_step: int = SYNC_STEP
    """Records from one offset sync to the next, with assigned offsets; 0 for no offset syncs."""
    sync_topic: SyncTopic | None = None
    """The topic of offset syncs; None for one at the target, when offsets of groups are copied."""
    topic_filter: TopicFilter | None = None
    """Selects the topics of MirrorMaker 2's connectors; None for names or a pattern."""
    replication_factor: int = BROKER_DEFAULT
    positions_topic: PositionsTopic | None = None
    """The topic at the target with positions of MirrorMaker 2, for flows that take over from it."""
    copies_tails: bool = True
    """True when the driver copies what arrives once the flow has caught up."""

    @property
    def group_id(self) -> str:
        """Return the group at the target with the flow's positions in the source."""
        return f"mirror-{self.flow}"

    @property
    def offset_syncs(self) -> SyncTopic | None:
        """Return the topic of offset syncs; None without them."""
        if self.is_identical or self.sync_step <= 0:
            return None
        if self.sync_topic is None and self.copies_groups:
            return SyncTopic(ReplicationPolicy("").offset_syncs_topic(self.flow), at_source=False)
        return self.sync_topic

    def remote(self, topic: str) -> str:
        """Return the name of a topic at the target."""
        return topic if self.policy is None else self.policy.remote_topic(topic)

    def at_source(self, remote: str) -> str:
        """Return the name at the source of a topic that the flow has copied."""
        upstream = None if self.policy is None else self.policy.upstream_topic(remote)
        return remote if upstream is None else upstream

    def at_target(self, where: Partition) -> Partition:
        """Return a partition of the source as the target has it."""
        topic, number = where
        return self.remote(topic), number


class MirrorConnector:
    """Describes a flow; the engine runs it without a task of a connector."""

    version = __version__
    without_effect: ClassVar[Mapping[str, str]] = WITHOUT_EFFECT

    def config(self) -> ConfigDef:
        """Return the definition of the connector's own properties."""
        return DEFINITION

    def task_configs(self, props: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """Return one task: the engine divides the partitions among its own.

        Raises ConfigValueError for properties that do not fit together.
        """
        del max_tasks
        flow_settings(props, {BOOTSTRAP: "127.0.0.1:9092"})
        return [dict(props)]


def settings_of(plan: JobPlan) -> FlowSettings:
    """Return the settings of a flow's job. Raises ConfigValueError."""
    runner = {**plan.client_properties, BOOTSTRAP: plan.bootstrap}
    return flow_settings(plan.properties, runner)


def flow_settings(properties: Mapping[str, str], runner: Mapping[str, str]) -> FlowSettings:
    """Return the settings that properties make; `runner` has those of the runner's clients.

    Raises ConfigValueError.
    """
    parsed = DEFINITION.parse(properties)
    flow = properties.get("name", "")
    if not _FLOW.fullmatch(flow):
        reason = "A flow's name has 1 to 249 letters, digits, dots, underscores and dashes"
        raise ConfigValueError.of("name", flow, reason)
    target: Mapping[str, str] = {} if parsed[TARGET + BOOTSTRAP] else runner
    return FlowSettings(
        flow,
        _client(flow, properties, SOURCE, {}),
        _client(flow, properties, TARGET, target),
        parsed[OFFSETS] == IDENTICAL,
        tuple(_list(parsed[GROUPS])),
        tuple(_list(parsed[GROUPS_EXCLUDE])),
        parsed[SYNC_CONFIGS] is True,
        parsed[SYNC_GROUPS] is True,
        tuple(_list(parsed[CONFIGS_EXCLUDE])),
        parsed[SYNC_ACLS] is True,
        copies_tails=parsed[TAILS] is True,
    )


def _client(
    flow: str, properties: Mapping[str, str], prefix: str, defaults: Mapping[str, str]
) -> ClientConfig:
    """Return the settings of one side's clients. Raises ConfigValueError."""
    own = {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix) and value
    }
    name = prefix + BOOTSTRAP
    if BOOTSTRAP not in own and BOOTSTRAP not in defaults:
        raise ConfigValueError.of(name, "", "A flow needs brokers: HOST:PORT")
    try:
        # Without an authorizer, a mirror topic knows its flow by the client id.
        return ClientConfig.from_properties({**FAST, **defaults, **own, "client.id": flow})
    except ConfigError as error:
        raise ConfigValueError.of(name, own.get(BOOTSTRAP, ""), str(error)) from None


def _list(value: ParsedValue) -> list[str]:
    return value if isinstance(value, list) else []
