"""The settings of a group coordinator, with Kafka's defaults."""

from collections.abc import Mapping

import attrs

from barnabas.coordinator.groups.consumer.assignors.assignor import Assignor, load_assignors

_INT_MAX = 2**31 - 1


def _default_assignors() -> Mapping[str, Assignor]:
    return load_assignors(("uniform", "range"))


@attrs.frozen
class GroupSettings:
    """The settings; comments name Kafka's properties. Sizes are bytes or members."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = _INT_MAX  # group.max.size
    offset_metadata_max_size: int = 4_096  # offset.metadata.max.bytes; Kafka counts UTF-16 units
    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    # How long the join of a new member may stay parked: without its member id it cannot send
    # heartbeats (Kafka: GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS).
    new_member_join_timeout_ms: int = 5 * 60_000

    # Consumer groups (KIP-848)
    consumer_session_timeout_ms: int = 45_000  # group.consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    consumer_assignment_interval_ms: int = 1_000  # group.consumer.assignment.interval.ms
    consumer_regex_refresh_interval_ms: int = 600_000  # group.consumer.regex.refresh.interval.ms
    consumer_max_size: int = _INT_MAX  # group.consumer.max.size
    # group.consumer.assignors, by name; the first is the default.
    consumer_assignors: Mapping[str, Assignor] = attrs.Factory(_default_assignors)
    # group.consumer.migration.policy: whether classic groups may become consumer groups, and back.
    consumer_upgrades: bool = True
    consumer_downgrades: bool = True
