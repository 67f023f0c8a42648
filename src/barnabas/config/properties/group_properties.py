"""The properties of a group, with the broker properties that are their defaults."""

from barnabas.config.properties.vocabulary import (
    BOOLEAN,
    INT,
    MEDIUM,
    SHARE_OFFSET_RESET,
    STRING,
    P,
)
from barnabas.config.schema import OneOf, Range

# A table, read a row at a time.
# fmt: off
PROPERTIES: tuple[P, ...] = (
    P("consumer.session.timeout.ms", INT, 45000, MEDIUM,
      "Milliseconds without a heartbeat after which a member is removed.",
      validator=Range(1), synonyms=(("group.consumer.session.timeout.ms", 1),), has_effect=True),
    P("consumer.heartbeat.interval.ms", INT, 5000, MEDIUM,
      "Heartbeat interval in milliseconds that members get.",
      validator=Range(1), synonyms=(("group.consumer.heartbeat.interval.ms", 1),), has_effect=True),
    P("consumer.assignment.interval.ms", INT, 1000, MEDIUM,
      "Least milliseconds between two assignments.",
      validator=Range(0), synonyms=(("group.consumer.assignment.interval.ms", 1),),
      has_effect=True),
    P("share.session.timeout.ms", INT, 45000, MEDIUM,
      "Milliseconds without a heartbeat after which a member is removed.",
      validator=Range(1), synonyms=(("group.share.session.timeout.ms", 1),)),
    P("share.heartbeat.interval.ms", INT, 5000, MEDIUM,
      "Heartbeat interval in milliseconds that members get.",
      validator=Range(1), synonyms=(("group.share.heartbeat.interval.ms", 1),)),
    P("share.record.lock.duration.ms", INT, 30000, MEDIUM,
      "Milliseconds for which a delivered record is locked for its consumer.",
      validator=Range(1000), synonyms=(("group.share.record.lock.duration.ms", 1),)),
    P("share.delivery.count.limit", INT, 5, MEDIUM,
      "Times that a record is delivered before it counts as failed.",
      validator=Range(2), synonyms=(("group.share.delivery.count.limit", 1),)),
    P("share.partition.max.record.locks", INT, 2000, MEDIUM,
      "Records of one partition that may be locked at a time.",
      validator=Range(100), synonyms=(("group.share.partition.max.record.locks", 1),)),
    P("share.auto.offset.reset", STRING, "latest", MEDIUM,
      "Where the group starts in a partition that is new to it: latest, earliest, or "
      "by_duration: and how far back.",
      validator=SHARE_OFFSET_RESET),
    P("share.isolation.level", STRING, "read_uncommitted", MEDIUM,
      "Whether the group reads records of open and aborted transactions.",
      validator=OneOf("read_committed", "read_uncommitted")),
    P("share.renew.acknowledge.enable", BOOLEAN, True, MEDIUM,
      "Allow consumers to extend the lock of a record."),
    P("share.assignment.interval.ms", INT, 1000, MEDIUM,
      "Least milliseconds between two assignments.",
      validator=Range(0), synonyms=(("group.share.assignment.interval.ms", 1),)),
    P("streams.session.timeout.ms", INT, 45000, MEDIUM,
      "Milliseconds without a heartbeat after which a member is removed.",
      validator=Range(1), synonyms=(("group.streams.session.timeout.ms", 1),)),
    P("streams.heartbeat.interval.ms", INT, 5000, MEDIUM,
      "Heartbeat interval in milliseconds that members get.",
      validator=Range(1), synonyms=(("group.streams.heartbeat.interval.ms", 1),)),
    P("streams.num.standby.replicas", INT, 0, MEDIUM,
      "Standby copies of each stateful task.",
      validator=Range(0), synonyms=(("group.streams.num.standby.replicas", 1),)),
    P("streams.initial.rebalance.delay.ms", INT, 3000, MEDIUM,
      "Milliseconds for which an empty group waits for more members before its first "
      "assignment.",
      validator=Range(0), synonyms=(("group.streams.initial.rebalance.delay.ms", 1),)),
    P("streams.assignment.interval.ms", INT, 1000, MEDIUM,
      "Least milliseconds between two assignments.",
      validator=Range(0), synonyms=(("group.streams.assignment.interval.ms", 1),)),
)
# fmt: on

GROUP_PROPERTIES = {row.name: row for row in PROPERTIES}
