"""Runs text scenarios: commands in, what the coordinator wrote and answered out.

A scenario is a list of blocks, each a few commands, a line `----` and the expected lines. Set
BARNABAS_REWRITE=1 to write the lines that come out into the files, and review the diff.

    join a group=g version=9        a client named `a` sends JoinGroup (its member id is kept)
    sync a m1=x m2=y                SyncGroup, with assignments by client name
    heartbeat a | leave a b         with the member ids and generation that the clients know
    commit a t-0=5 | fetch t-0      offsets
    topics t=3 u=1                  the cluster's topics, with their partitions
    beat n topics=t own=t-0,t-1     a client of the consumer protocol sends a heartbeat; it joins
                                    with `join` (also regex= instance= assignor= epoch=)
    bye n | away n                  it leaves, or says that it will be back
    settings max_size=2             a new coordinator; settings-kept: from the next restart on
    advance 3000 | restart | refuse NOT_ENOUGH_REPLICAS | describe g | list | delete g
    describe-consumer g | causes g  what administrators see
    log                             the log, a line for each record
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from barnabas.coordinator.core.coordinator_output import Caller, Record
from barnabas.coordinator.groups.consumer.consumer_member import MemberState
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.groups.group_harness import (
    Coordinator,
    commit_request,
    fetch_request,
    join_request,
    topic_id,
)


@attrs.define
class Client:
    name: str
    member_id: str = ""
    generation_id: int = -1
    instance_id: str | None = None


class Scenario:
    def __init__(self, **settings: int) -> None:
        self.coordinator = Coordinator(GroupSettings(**settings), appended=self.note_append)
        self.clients: dict[str, Client] = {}
        self.lines: list[str] = []
        self.fresh = 0

    def client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def run(self, command: str) -> None:
        verb, *words = command.split()
        getattr(self, f"do_{verb.replace('-', '_')}")(*words)
        for token, response in self.coordinator.replies:
            self.lines.append(f"{token} <- {self.shown(token, response)}")
        self.coordinator.replies.clear()

    # Commands

    def do_settings(self, *words: str) -> None:
        self.coordinator = Coordinator(
            GroupSettings(**{name: int(value) for name, value in options(words)}),
            appended=self.note_append,
        )

    def do_settings_kept(self, *words: str) -> None:
        changes = {name: int(value) for name, value in options(words)}
        self.coordinator.settings = attrs.evolve(self.coordinator.settings, **changes)

    def do_join(self, name: str, *words: str) -> None:
        fields: dict[str, Any] = dict(options(words))
        client = self.client(name)
        client.instance_id = fields.get("instance", client.instance_id)
        client.member_id = fields.get("member", client.member_id).strip("'")
        version = int(fields.get("version", "9"))
        self.fresh += 1
        request = join_request(
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            session_timeout_ms=int(fields.get("session", "10000")),
            rebalance_timeout_ms=int(fields.get("rebalance", "30000")),
            protocol_type=fields.get("type", "consumer"),
            protocols=fields.get("protocols", "range").split(","),
        )
        self.coordinator.do(
            self.coordinator.shard.join_group,
            request,
            Caller(name, version=version),
            str(self.fresh),
            self.coordinator.now_ms,
            token=name,
        )

    def do_sync(self, name: str, *words: str) -> None:
        client = self.client(name)
        fields = dict(options(words))
        request = SyncGroupRequest(
            group_id="g",
            generation_id=int(fields.pop("generation", client.generation_id)),
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_name=fields.pop("protocol", None),
            protocol_type=fields.pop("type", None),
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=self.client(other).member_id, assignment=value.encode()
                )
                for other, value in fields.items()
            ],
        )
        self.coordinator.do(
            self.coordinator.shard.sync_group, request, self.coordinator.now_ms, token=name
        )

    def do_heartbeat(self, name: str, *words: str) -> None:
        client = self.client(name)
        fields = dict(options(words))
        request = HeartbeatRequest(
            group_id="g",
            generation_id=int(fields.get("generation", client.generation_id)),
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        self.coordinator.do(
            self.coordinator.shard.heartbeat, request, self.coordinator.now_ms, token=name
        )

    def do_topics(self, *words: str) -> None:
        self.coordinator.set_topics(**{name: int(count) for name, count in options(words)})

    def do_beat(self, name: str, *words: str) -> None:
        client = self.client(name)
        flags = {word for word in words if "=" not in word}
        fields: dict[str, Any] = dict(options(tuple(w for w in words if "=" in w)))
        client.instance_id = fields.get("instance", client.instance_id)
        client.member_id = fields.get("member", client.member_id or name)
        joins = "join" in flags
        if joins:
            client.generation_id = 0
        owned = fields.get("own")
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=client.member_id,
            member_epoch=int(fields.get("epoch", client.generation_id)),
            instance_id=client.instance_id,
            rebalance_timeout_ms=int(fields.get("rebalance", "30000" if joins else "-1")),
            server_assignor=fields.get("assignor"),
            subscribed_topic_regex=fields.get("regex"),
            topic_partitions=held(owned) if owned is not None or joins else None,
        )
        if "topics" in fields:
            request.subscribed_topic_names = [t for t in fields["topics"].split(",") if t]
        self.fresh += 1
        self.coordinator.do(
            self.coordinator.shard.consumer_heartbeat,
            request,
            Caller(name, version=1),
            str(self.fresh),
            self.coordinator.now_ms,
            token=name,
        )

    def do_bye(self, name: str) -> None:
        self.do_beat(name, "epoch=-1")

    def do_away(self, name: str) -> None:
        self.do_beat(name, "epoch=-2")

    def do_describe_consumer(self, group_id: str) -> None:
        self.coordinator.do(
            self.coordinator.shard.describe_consumer_group, group_id, token="describe"
        )

    def do_causes(self, group_id: str) -> None:
        for cause in self.coordinator.shard.rebalance_causes(group_id):
            self.lines.append(f"{cause.time_ms} epoch={cause.epoch} {cause.reason}")

    def do_leave(self, *names: str) -> None:
        members = [
            LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id=name[1:])
            if name.startswith("@")
            else LeaveGroupRequest.MemberIdentity(
                member_id=self.client(name).member_id,
                group_instance_id=self.client(name).instance_id,
            )
            for name in names
        ]
        request = LeaveGroupRequest(group_id="g", members=members)
        self.coordinator.do(
            self.coordinator.shard.leave_group, request, self.coordinator.now_ms, token="leave"
        )

    def do_commit(self, name: str, *words: str) -> None:
        client = self.client(name)
        fields = dict(options(words))
        version = int(fields.pop("version", "9"))
        request = commit_request(
            {partition(word): int(value) for word, value in fields.items() if "-" in word},
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            generation_id_or_member_epoch=int(fields.get("generation", client.generation_id)),
            retention_time_ms=int(fields.get("retention", -1)),
        )
        for topic in request.topics:
            topic.topic_id = topic_id(topic.name)
        self.coordinator.do(
            self.coordinator.shard.commit_offsets,
            request,
            version,
            self.coordinator.now_ms,
            token=name,
        )

    def do_fetch(self, *words: str) -> None:
        shard = self.coordinator.shard
        for word in words:
            topic, index = partition(word)
            output = shard.fetch_offsets(
                fetch_request(topic, index), require_stable=True, token="fetch"
            )
            fetched = output.replies[0].response.topics[0].partitions[0]
            error = f" {ErrorCode(fetched.error_code).name}" if fetched.error_code else ""
            self.lines.append(f"{word} is {fetched.committed_offset}{error}")

    def do_delete_offset(self, word: str) -> None:
        topic, index = partition(word)
        part = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index)
        request = OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[part])],
        )
        self.coordinator.do(self.coordinator.shard.delete_offsets, request, token="delete")

    def do_delete(self, group_id: str) -> None:
        self.coordinator.do(self.coordinator.shard.delete_groups, [group_id], token="delete")

    def do_advance(self, duration_ms: str) -> None:
        self.coordinator.advance(int(duration_ms))

    def do_restart(self) -> None:
        self.coordinator.restart()

    def do_refuse(self, error: str) -> None:
        self.coordinator.refuse_next = ErrorCode[error]

    def do_describe(self, group_id: str) -> None:
        self.coordinator.do(self.coordinator.shard.describe_group, group_id, 6, token="describe")

    def do_list(self) -> None:
        self.coordinator.do(self.coordinator.shard.list_groups, [], [], token="list")

    # What comes out

    def note_append(self, record: Record) -> None:
        self.lines.append(f"write {shown_record(record)}")

    def shown(self, token: str, response: Any) -> str:
        if isinstance(response, ErrorCode):
            return response.name
        if isinstance(response, list):
            return ", ".join(self.shown(token, item) for item in response) or "nothing"
        kind = type(response).__name__
        return getattr(self, f"show_{kind}")(token, response)

    def show_JoinGroupResponse(self, token: str, response: Any) -> str:  # noqa: N802
        error = ErrorCode(response.error_code)
        if response.member_id:
            self.client(token).member_id = response.member_id
        if error:
            return f"{error.name} member={response.member_id!r}"
        self.client(token).generation_id = response.generation_id
        members = ",".join(member.member_id for member in response.members)
        skip = " skip-assignment" if response.skip_assignment else ""
        return (
            f"joined generation={response.generation_id} member={response.member_id} "
            f"leader={response.leader} protocol={response.protocol_name} members=[{members}]{skip}"
        )

    def show_SyncGroupResponse(self, _token: str, response: Any) -> str:  # noqa: N802
        if response.error_code:
            return ErrorCode(response.error_code).name
        return f"synced assignment={response.assignment!r}"

    def show_HeartbeatResponse(self, _token: str, response: Any) -> str:  # noqa: N802
        return ErrorCode(response.error_code).name

    def show_ConsumerGroupHeartbeatResponse(self, token: str, response: Any) -> str:  # noqa: N802
        client = self.client(token)
        client.generation_id = response.member_epoch
        assigned_text = "" if response.assignment is None else f" has {shown(response.assignment)}"
        return f"epoch={response.member_epoch} member={response.member_id}{assigned_text}"

    def show_LeaveGroupResponse(self, _token: str, response: Any) -> str:  # noqa: N802
        codes = [ErrorCode(member.error_code).name for member in response.members]
        return f"{ErrorCode(response.error_code).name} {codes}"

    def show_OffsetCommitResponse(self, _token: str, response: Any) -> str:  # noqa: N802
        return show_partitions(response)

    def show_OffsetDeleteResponse(self, _token: str, response: Any) -> str:  # noqa: N802
        return show_partitions(response)

    def show_DeletableGroupResult(self, _token: str, result: Any) -> str:  # noqa: N802
        return f"{result.group_id} {ErrorCode(result.error_code).name}"

    def show_ListedGroup(self, _token: str, group: Any) -> str:  # noqa: N802
        return f"{group.group_id} {group.group_state} {group.group_type} {group.protocol_type!r}"

    def show_DescribedGroup(self, _token: str, group: Any) -> str:  # noqa: N802
        if hasattr(group, "group_epoch"):
            return show_consumer_group(group)
        if group.error_code:
            return f"{ErrorCode(group.error_code).name} {group.group_state} {group.error_message}"
        members = ", ".join(f"{m.member_id}={m.member_assignment!r}" for m in group.members)
        return f"{group.group_state} protocol={group.protocol_data!r} members=[{members}]"


def show_consumer_group(group: Any) -> str:
    if group.error_code:
        return f"{ErrorCode(group.error_code).name} {group.error_message}"
    members = ", ".join(
        f"{m.member_id}@{m.member_epoch} has {shown(m.assignment)} of "
        f"{shown(m.target_assignment)}{' classic' if m.member_type == 0 else ''}"
        for m in group.members
    )
    return (
        f"{group.group_state} epoch={group.group_epoch} target={group.assignment_epoch} "
        f"{group.assignor_name} members=[{members}]"
    )


def show_partitions(response: Any) -> str:
    return ", ".join(
        f"{topic.name}-{part.partition_index} {ErrorCode(part.error_code).name}"
        for topic in response.topics
        for part in topic.partitions
    )


def topic_name(topic_id: bytes) -> str:
    return bytes(topic_id).rstrip(b".").decode()


def held(words: str) -> list[Any]:
    """Return the partitions of `own=t-0,t-1`."""
    partitions: dict[str, list[int]] = {}
    for word in words.split(",") if words else []:
        topic, index = partition(word)
        partitions.setdefault(topic, []).append(index)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id(t), partitions=p)
        for t, p in partitions.items()
    ]


def shown(assignment: Any) -> str:
    topics = getattr(assignment, "topic_partitions", assignment)
    parts = [f"{topic_name(t.topic_id)}-{p}" for t in topics for p in sorted(t.partitions)]
    return f"[{' '.join(sorted(parts))}]"


def shown_consumer_record(key: Any, value: Any) -> str:
    kind = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
    who = getattr(key, "member_id", getattr(key, "regular_expression", ""))
    what = f"{kind} {who}".strip()
    if value is None:
        return f"{what} tombstone"
    if kind == "Metadata":
        return f"{what} epoch={value.epoch} hash={value.metadata_hash:#x}"
    if kind == "MemberMetadata":
        names = ",".join(value.subscribed_topic_names)
        instance = f" instance={value.instance_id}" if value.instance_id else ""
        regex = f" regex={value.subscribed_topic_regex}" if value.subscribed_topic_regex else ""
        classic = " classic" if value.classic_member_metadata is not None else ""
        return f"{what} topics={names}{regex}{instance}{classic}"
    if kind == "TargetAssignmentMetadata":
        return f"{what} epoch={value.assignment_epoch}"
    if kind == "TargetAssignmentMember":
        return f"{what} {shown(value)}"
    if kind == "RegularExpression":
        return f"{what} {','.join(value.topics)}"
    state = MemberState.of(value.state).name
    revoking = value.partitions_pending_revocation
    gives = f" gives up {shown(revoking)}" if revoking else ""
    return (
        f"{what} epoch={value.member_epoch} before={value.previous_member_epoch} {state} "
        f"has {shown(value.assigned_partitions)}{gives}"
    )


def shown_record(record: Record) -> str:
    key, value = record.key, record.value
    if type(key).__name__.startswith("ConsumerGroup"):
        return shown_consumer_record(key, value)
    if hasattr(key, "topic"):
        what = f"offset {key.group} {key.topic}-{key.partition}"
        return f"{what} {'tombstone' if value is None else value.offset}"
    if value is None:
        return f"group {key.group} tombstone"
    members = ", ".join(f"{m.member_id}={m.assignment!r}" for m in value.members)
    return (
        f"group {key.group} generation={value.generation} protocol={value.protocol} "
        f"leader={value.leader} members=[{members}]"
    )


def options(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, value = word.partition("=")
        yield name, value


def partition(word: str) -> tuple[str, int]:
    topic, _, index = word.rpartition("-")
    return topic, int(index)


def blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Return the commands and expected lines of each block; empty lines separate blocks."""
    for block in text.strip().split("\n\n"):
        commands, _, expected = block.partition("----")
        yield commands.strip().splitlines(), expected.strip().splitlines()


def outcome(file: Path) -> str:
    """The file's text with the lines that come out now."""
    scenario, written = Scenario(), list[str]()
    for commands, _ in blocks(file.read_text()):
        scenario.lines.clear()
        for command in commands:
            if not command.startswith("#"):
                scenario.run(command)
        shown = [*commands, *(["----", *scenario.lines] if scenario.lines else [])]
        written.append("\n".join(shown))
    return "\n\n".join(written) + "\n"
