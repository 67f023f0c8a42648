"""The settings that a group coordinator obeys, with Kafka's defaults."""

import attrs


@attrs.frozen
class GroupSettings:
    """Kafka's property is named beside each; times are milliseconds, sizes bytes or members."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = 2**31 - 1  # group.max.size
    offset_metadata_max_size: int = (
        4_096  # offset.metadata.max.bytes, of which Kafka counts UTF-16 units
    )
    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    # A joiner cannot heartbeat before it knows its member id: how long it may stay parked
    # (Kafka: GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS).
    new_member_join_timeout_ms: int = 5 * 60_000
