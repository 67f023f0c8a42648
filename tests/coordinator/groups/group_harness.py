"""A shard with a log, a clock and an in-memory append, as the server's shell drives it."""

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from barnabas.cluster.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from barnabas.coordinator.core.coordinator_output import Decision, Output, append_error
from barnabas.coordinator.core.steps import run_through
from barnabas.coordinator.groups.consumer.regex_subscriptions import Matching, ResolutionRequest
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.records.coordinator_framing import (
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.protocol.records.group_records import decode_group_record
from barnabas.protocol.types import ZERO_UUID, Uuid

SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"  # v0: topic "t", no data


def matched(regex: str, topics: Iterable[str]) -> frozenset[str]:
    """The topics that an expression stands for, looked at one at a time."""
    matching = Matching(regex, topics)
    while matching.advance(1):
        pass
    return matching.matched


@attrs.define
class Coordinator:
    """One shard as long as it leads; `restart` gives its log to a new one."""

    settings: GroupSettings = attrs.Factory(GroupSettings)
    now_ms: int = 1_000_000
    log: list[tuple[bytes, bytes | None]] = attrs.Factory(list)
    replies: list[tuple[Any, Any]] = attrs.Factory(list)
    appended: Callable[[Any], None] = lambda _record: None
    refuse_next: ErrorCode | None = None
    wanted: list[ResolutionRequest] = attrs.Factory(list)
    holds_regexes: bool = False
    image: MetadataImage = attrs.Factory(MetadataImage)
    shard: GroupShard = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.shard = GroupShard(self.settings)
        self.shard.update_metadata(self.image, self.settings)
        self.shard.loaded(self.now_ms)

    def set_topics(self, **partitions: int) -> None:
        """Replace the cluster's topics by these, with their numbers of partitions."""
        before = self.image.topics_by_name
        self.image = image_of(partitions, before=self.image)
        after = self.image.topics_by_name
        self.shard.update_metadata(
            self.image,
            self.settings,
            changed=before.keys() | after.keys(),
            created=not after.keys() <= before.keys(),
        )

    def do(self, operation: Callable[..., Decision], *args: Any, token: Any = None) -> Any:
        """Run an operation; the reply to `token` if it is there already, or its error code."""
        before = len(self.replies)
        try:
            output = decided(operation(*args, token=token))
        except KafkaError as error:
            self.replies.append((token, error.code))
        else:
            self.carry_out(output)
        self.settle()
        return next((r for t, r in self.replies[before:] if t == token), None)

    def carry_out(self, decision: Decision) -> None:
        output = decided(decision)
        if output.records and self.refuse_next is not None:
            error, self.refuse_next = append_error(self.refuse_next), None
            if output.refused is not None:
                self.replies += [(reply.token, reply.response) for reply in output.replies]
                self.carry_out(output.refused(error, self.now_ms))
            else:
                self.replies += [(reply.token, error) for reply in output.replies]
            return
        self.replies += [(reply.token, reply.response) for reply in output.replies]
        for record in output.records:
            offset = len(self.log)
            key = encode_coordinator_key(record.key)
            value = None
            if record.value is not None:
                value = encode_coordinator_value(record.value, record.version)
            self.log.append((key, value))
            self.shard.replay(record.key, record.value, record_offset=offset)
            self.appended(record)
        self.wanted += output.effects
        if output.then is not None:
            self.carry_out(output.then(self.now_ms))
        if not self.holds_regexes:
            self.resolve_regexes()

    def resolve_regexes(self) -> None:
        """Answer the shard's resolution requests."""
        while self.wanted:
            wanted = self.wanted.pop(0)
            topics = self.image.topics_by_name
            found = {one: matched(one, topics) for one in wanted.regexes}
            version = self.image.offset
            self.carry_out(
                self.shard.regexes_resolved(wanted.group_id, found, version, self.now_ms)
            )

    def settle(self) -> None:
        """Run the timers that are due."""
        while (output := self.shard.tick(self.now_ms)) is not None:
            self.carry_out(output)

    def advance(self, duration_ms: int) -> None:
        """Let time pass, stopping at every timer on the way."""
        end_ms = self.now_ms + duration_ms
        while (wakeup_ms := self.shard.next_wakeup()) is not None and wakeup_ms <= end_ms:
            self.now_ms = max(self.now_ms, wakeup_ms)
            self.settle()
        self.now_ms = end_ms

    def restart(self) -> None:
        """Start a new leader with the log only; waiting requests get NOT_COORDINATOR."""
        self.wanted.clear()
        self.carry_out(self.shard.unload(self.now_ms))
        self.shard = GroupShard(self.settings)
        self.shard.update_metadata(self.image, self.settings)
        for offset, (key, value) in enumerate(self.log):
            self.shard.replay(*decode_group_record(key, value), record_offset=offset)
        self.shard.loaded(self.now_ms)


def decided(decision: Decision) -> Output:
    """The output of an operation; nothing else happens to the shard between its steps."""
    return decision if isinstance(decision, Output) else run_through(decision)


def topic_id(name: str) -> Uuid:
    """Every topic's id is made of its name."""
    return Uuid(name.encode().ljust(16, b"."))


def image_of(
    partitions: dict[str, int],
    *,
    before: MetadataImage | None = None,
    racks: dict[int, str] | None = None,
) -> MetadataImage:
    """A cluster's metadata with these topics, each partition on broker `partition % 3`."""
    placed = PartitionImage((), (), (), 0, 0, 0)
    topics = [
        TopicImage(
            name,
            topic_id(name),
            {p: attrs.evolve(placed, replicas=(p % 3, (p + 1) % 3)) for p in range(count)},
        )
        for name, count in partitions.items()
    ]
    brokers = {
        broker: BrokerImage(broker, 0, ZERO_UUID, {}, {}, rack, False, False, ())
        for broker, rack in (racks or {}).items()
    }
    return MetadataImage(
        topics_by_name={topic.name: topic for topic in topics},
        topics_by_id={topic.id: topic for topic in topics},
        brokers=brokers,
        offset=1 if before is None else before.offset + 1,
    )


def join_request(group_id: str = "g", member_id: str = "", **fields: Any) -> JoinGroupRequest:
    names: list[str] = fields.pop("protocols", ["range"])
    metadata: bytes = fields.pop("metadata", SUBSCRIPTION)
    defaults: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
    }
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name in names
        ],
        **(defaults | fields),
    )


def commit_request(
    offsets: dict[tuple[str, int], int], group_id: str = "g", **fields: Any
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        **fields,
    )


def fetch_request(topic: str | None, *partitions: int, group_id: str = "g") -> Any:
    topics = None
    if topic is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                name=topic, partition_indexes=list(partitions)
            )
        ]
    return OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
