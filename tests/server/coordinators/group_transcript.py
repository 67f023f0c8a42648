"""A recording of a server's answers to all requests about groups, in every version.

Random parts (member ids, the port) are replaced by names, so that two servers can be compared
line by line. A recording of a server is made with
`python -m tests.server.coordinators.group_transcript HOST:PORT > FILE`.
"""

import re
import socket
import struct
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from barnabas.protocol.apis import api_by_name
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.types import Uuid

SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
UNKNOWN_ID = Uuid(b"1" * 16)
RETRIABLE = {14, 15, 16}  # loading, not available, not coordinator


class Connection:
    """Sends requests and reads responses; a request may be left open for a while."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._open: list[tuple[Any, int]] = []

    def send(self, request: Any, version: int) -> None:
        api = api_by_name(type(request).__name__.removesuffix("Request"))
        parts = encode_request(len(self._open), "cli", request, version)
        self._socket.sendall(b"".join(bytes(part) for part in parts))
        self._open.append((api, version))

    def receive(self) -> Any:
        api, version = self._open.pop(0)
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        start = 4 + (1 if api.response_header_version(version) else 0)
        return api.response_type.decode(frame[start:], version)

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data


def shown(value: Any, names: dict[str, str]) -> str:
    """A message as text: fields with their values, random ones by their names."""
    if isinstance(value, list):
        items = [shown(item, names) for item in value]
        if value and (hasattr(value[0], "group_id") or hasattr(value[0], "member_id")):
            items.sort()  # Kafka returns groups and members in the order of a hash
        return "[" + ", ".join(items) + "]"
    if isinstance(value, bytes | str | int | None):
        if isinstance(value, str) and value in names:
            return names[value]
        return repr(int(value) if isinstance(value, int) else value)
    fields = {name: getattr(value, name) for name in value_fields(value)}
    fields.pop("throttle_time_ms", None)
    return "{" + ", ".join(f"{name}: {shown(item, names)}" for name, item in fields.items()) + "}"


def value_fields(value: Any) -> Iterator[str]:
    for name in dir(value):
        if not name.startswith("_") and name.islower() and name != "unknown_tagged_fields":
            attribute = getattr(value, name)
            if not callable(attribute):
                yield name


class Transcript:
    """The questions, in an order that builds one group up and takes it down again."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = f"group-{uuid.uuid4()}"
        self.names: dict[str, str] = {}
        self.lines: list[str] = []
        self.main = Connection(bootstrap)
        self.other = Connection(bootstrap)

    def note(self, label: str, answer: Any) -> Any:
        text = shown(answer, self.names)
        text = text.replace(self.group, "GROUP").replace(repr(self.topic), "TOPIC")
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", text)
        text = re.sub(r"host: '(localhost|127.0.0.1)'", "host: HOST", text)
        text = re.sub(r"port: \d+", "port: PORT", text)
        self.lines.append(f"{label}: {text}")
        return answer

    def run(self) -> str:
        self.find()
        self.strangers()
        self.first_member()
        self.offsets()
        self.second_member()
        self.static_member()
        for connection in (self.main, self.other):
            connection.close()
        return "\n".join(self.lines) + "\n"

    # Requests

    def join(self, member: str = "", version: int = 9, **fields: Any) -> JoinGroupRequest:
        protocols = fields.pop("protocols", ("range",))
        defaults: dict[str, Any] = {
            "group_id": self.group,
            "member_id": member,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
        }
        if version < 5:
            fields.pop("group_instance_id", None)
        return JoinGroupRequest(
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION)
                for name in protocols
            ],
            **(defaults | fields),
        )

    def sync(self, member: str, generation: int, **fields: Any) -> SyncGroupRequest:
        given: dict[str, bytes] = fields.pop("given", {})
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=m, assignment=a)
                for m, a in given.items()
            ],
            **({"protocol_type": "consumer", "protocol_name": "range"} | fields),
        )

    def heartbeat(
        self, member: str, generation: int, instance: str | None = None, version: int = 4
    ) -> Any:
        request = HeartbeatRequest(group_id=self.group, generation_id=generation, member_id=member)
        if instance is not None:
            request.group_instance_id = instance
        return self.main.ask(request, version)

    def commit(self, member: str, generation: int, version: int = 9, **fields: Any) -> Any:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        metadata = fields.pop("metadata", "m")
        offset = fields.pop("offset", 5)
        if version >= 10:
            topics = [topic(topic_id=UNKNOWN_ID, partitions=[partition(partition_index=0)])]
        else:
            topics = [
                topic(
                    name=self.topic,
                    partitions=[
                        partition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                        for index in (0, 99)
                    ],
                ),
                topic(name="nosuch", partitions=[partition(partition_index=0)]),
            ]
        request = OffsetCommitRequest(
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=topics,
            **({"group_id": self.group} | fields),
        )
        return self.main.ask(request, version)

    def leave(self, version: int, *members: tuple[str, str | None]) -> Any:
        if version < 3:
            request = LeaveGroupRequest(group_id=self.group, member_id=members[0][0])
        else:
            request = LeaveGroupRequest(
                group_id=self.group,
                members=[
                    LeaveGroupRequest.MemberIdentity(member_id=m, group_instance_id=i)
                    for m, i in members
                ],
            )
        return self.main.ask(request, version)

    def describe(self, *groups: str, version: int = 6, **fields: Any) -> Any:
        # Kafka reads what is committed; this is answered once all before it is.
        self.main.ask(HeartbeatRequest(group_id=groups[0], member_id="x"), 4)
        return self.main.ask(DescribeGroupsRequest(groups=list(groups), **fields), version)

    def delete(self, *groups: str, version: int = 2) -> Any:
        return self.main.ask(DeleteGroupsRequest(groups_names=list(groups)), version)

    # Chapters

    def find(self) -> None:
        for version in range(7):
            old = FindCoordinatorRequest(key=self.group)
            new = FindCoordinatorRequest(coordinator_keys=[self.group, "x"])
            request = old if version < 4 else new
            self.note(f"find v{version}", self.retry(request, version))
        self.retry(HeartbeatRequest(group_id=self.group, member_id="x"), 4)

    def retry(self, request: Any, version: int) -> Any:
        deadline = time.monotonic() + 60
        while True:
            answer = self.main.ask(request, version)
            code = answer.error_code
            if version >= 4 and isinstance(request, FindCoordinatorRequest):
                code = answer.coordinators[0].error_code
            if code not in RETRIABLE or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)

    def strangers(self) -> None:
        for version in range(10):
            request = self.join(version=version, session_timeout_ms=10)
            if version < 1:
                request.rebalance_timeout_ms = -1
            self.note(f"join v{version} short session", self.main.ask(request, version))
        self.note("join empty id", self.main.ask(self.join(group_id=""), 9))
        self.note("join unknown member", self.main.ask(self.join("unknown"), 9))
        other = self.group + "-b"
        request = self.join(group_id=other, protocols=())
        self.note("join without protocols", self.main.ask(request, 3))
        self.note(
            "describe v5", self.describe(other, "no", version=5, include_authorized_operations=True)
        )
        for version in (0, 1, 2, 3, 4, 6):
            self.note(f"describe v{version}", self.describe(other, "no", version=version))
        self.note("delete", self.delete(other, "no"))
        for version in range(6):
            members = ("x", None), ("", "i")
            self.note(f"leave v{version} outsider", self.leave(version, *members))
        for version in range(6):
            request = self.sync("x", 1)
            if version < 5:
                request.protocol_type = request.protocol_name = None
            self.note(f"sync v{version} outsider", self.main.ask(request, version))
        request = self.sync("x", 1, protocol_type=None, protocol_name=None)
        self.note("sync v5 without protocol", self.main.ask(request, 5))
        for version in range(5):
            self.note(f"heartbeat v{version}", self.heartbeat("x", 1, version=version))
        empty = HeartbeatRequest(group_id="", generation_id=1, member_id="x")
        self.note("heartbeat empty id", self.main.ask(empty, 4))

    def first_member(self) -> None:
        answer = self.note("a join", self.main.ask(self.join(), 9))
        a = self.a = answer.member_id
        self.names[a] = "A"
        answer = self.note("a join again", self.main.ask(self.join(a), 9))
        generation = self.generation = answer.generation_id
        self.note("commit completing", self.commit(a, generation))
        self.note("heartbeat completing", self.heartbeat(a, generation))
        self.note("join completing", self.main.ask(self.join(a), 9))
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("generation", {"generation": generation + 1}),
            ("type", {"generation": generation, "protocol_type": "connect"}),
            ("protocol", {"generation": generation, "protocol_name": "other"}),
        ]
        for label, fields in wrong:
            self.note(f"sync wrong {label}", self.main.ask(self.sync(a, **fields), 5))
        self.note("sync", self.main.ask(self.sync(a, generation, given={a: b"ASSIGNED"}), 5))
        self.note("sync again", self.main.ask(self.sync(a, generation), 5))
        self.note("heartbeat stable", self.heartbeat(a, generation))
        self.note("heartbeat stale", self.heartbeat(a, generation - 1))
        self.note("join other type", self.main.ask(self.join(a, protocol_type="connect"), 9))
        self.note("join other protocol", self.main.ask(self.join(protocols=("other",)), 9))

    def offsets(self) -> None:
        a, generation, group = self.a, self.generation, self.group
        for version in range(2, 11):
            self.note(f"commit v{version}", self.commit(a, generation, version))
        self.note("commit stale", self.commit(a, generation - 1))
        self.note("commit unknown", self.commit("", -1))
        self.note("commit outsider", self.commit("x", generation))
        self.note("commit metadata", self.commit(a, generation, metadata="m" * 4097))
        for version in (8, 9):
            answer = self.commit("x", 1, version, group_id="no")
            self.note(f"commit v{version} no group", answer)
        topic = OffsetFetchRequest.OffsetFetchRequestTopic
        named = [
            topic(name=self.topic, partition_indexes=[0, 1, 99]),
            topic(name="nosuch", partition_indexes=[0]),
        ]
        for version in range(1, 8):
            request = OffsetFetchRequest(group_id=group, topics=named)
            self.note(f"fetch v{version}", self.main.ask(request, version))
            if version >= 2:
                request = OffsetFetchRequest(group_id=group, topics=None)
                self.note(f"fetch v{version} all", self.main.ask(request, version))
        for version in (8, 9):
            self.note(f"fetch v{version}", self.fetch_groups(version))
        self.note("fetch v10", self.fetch_groups(10))
        partition = OffsetDeleteRequest.OffsetDeleteRequestPartition
        delete = OffsetDeleteRequest.OffsetDeleteRequestTopic
        partitions = [partition(partition_index=index) for index in (0, 99)]
        for label, group_id in (("", group), (" no group", "no"), (" empty id", "")):
            request = OffsetDeleteRequest(
                group_id=group_id,
                topics=[
                    delete(name=self.topic, partitions=partitions),
                    delete(name="nosuch", partitions=partitions),
                ],
            )
            self.note(f"delete offsets{label}", self.main.ask(request, 0))
        self.note("describe stable", self.describe(group))
        self.lists()
        self.note("delete with members", self.delete(group))

    def fetch_groups(self, version: int) -> Any:
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        topic = OffsetFetchRequest.OffsetFetchRequestTopics
        if version >= 10:
            topics = [topic(topic_id=UNKNOWN_ID, partition_indexes=[0])]
            groups = [group(group_id=self.group, topics=topics)]
        else:
            topics = [topic(name=self.topic, partition_indexes=[0, 1, 99])]
            groups = [
                group(group_id=self.group, topics=topics),
                group(group_id="no", topics=topics),
                group(group_id=self.group, topics=None),
            ]
        return self.main.ask(OffsetFetchRequest(groups=groups, require_stable=True), version)

    def lists(self) -> None:
        for version in range(6):
            answer = self.main.ask(ListGroupsRequest(), version)
            answer.groups = [g for g in answer.groups if g.group_id == self.group]
            self.note(f"list v{version}", answer)
        filters: list[dict[str, list[str]]] = [
            {"states_filter": ["stable", "Dead"]},
            {"states_filter": [" STABLE "]},
            {"states_filter": ["Empty"]},
            {"types_filter": ["CLASSIC"]},
            {"types_filter": ["consumer"]},
            {"types_filter": ["bogus"]},
        ]
        for wanted in filters:
            answer = self.main.ask(ListGroupsRequest(**wanted), 5)
            answer.groups = [g for g in answer.groups if g.group_id == self.group]
            self.note(f"list {wanted}", answer)

    def second_member(self) -> None:
        a, generation, other = self.a, self.generation, self.other
        answer = self.note("b join", other.ask(self.join(), 9))
        b = answer.member_id
        self.names[b] = "B"
        other.send(self.join(b), 9)
        while self.heartbeat(a, generation).error_code == 0:
            time.sleep(0.01)
        self.note("heartbeat preparing", self.heartbeat(a, generation))
        self.note("sync preparing", self.main.ask(self.sync(a, generation), 5))
        self.note("commit preparing", self.commit(a, generation, offset=6))
        self.note("describe preparing", self.describe(self.group))
        answer = self.note("a joins again", self.main.ask(self.join(a), 9))
        generation = answer.generation_id
        self.note("b joined", other.receive())
        other.send(self.sync(b, generation), 5)
        self.note("a syncs", self.main.ask(self.sync(a, generation, given={a: b"1", b: b"2"}), 5))
        self.note("b synced", other.receive())
        self.note("b joins with nothing new", other.ask(self.join(b), 9))
        self.note("leave", self.leave(5, (b, None), ("x", None)))
        self.note("heartbeat after", self.heartbeat(a, generation))
        self.note("leave v2", self.leave(2, (a, None)))
        self.note("describe empty", self.describe(self.group))
        self.note("heartbeat empty", self.heartbeat(a, generation))
        self.note("sync empty", self.main.ask(self.sync(a, generation), 5))
        self.note("commit empty member", self.commit(a, generation))
        self.note("commit empty unknown", self.commit("", -1, offset=11))
        self.note("join empty", self.main.ask(self.join(a), 9))

    def static_member(self) -> None:
        mine: dict[str, Any] = {"group_instance_id": "i1"}
        answer = self.main.ask(self.join(**mine), 9)
        first, generation = answer.member_id, answer.generation_id
        self.names[first] = "S1"
        self.note("static join", answer)
        request = self.sync(first, generation, given={first: b"x"}, **mine)
        self.note("static sync", self.main.ask(request, 5))
        answer = self.main.ask(self.join(**mine), 9)
        second = answer.member_id
        self.names[second] = "S2"
        self.note("static again", answer)
        self.note("fenced heartbeat", self.heartbeat(first, generation, "i1"))
        self.note("fenced sync", self.main.ask(self.sync(first, generation, **mine), 5))
        self.note("fenced join", self.main.ask(self.join(first, **mine), 9))
        self.note("fenced commit", self.commit(first, generation, **mine))
        self.note("without instance", self.heartbeat(second, generation))
        self.note("other instance", self.heartbeat(second, generation, "i9"))
        self.note("static sync again", self.main.ask(self.sync(second, generation, **mine), 5))
        answer = self.main.ask(self.join(**mine), 8)
        self.names[answer.member_id] = "S3"
        self.note("static again v8", answer)
        self.note("leave by instance", self.leave(5, ("", "i1"), ("", "i9")))
        self.note("delete at last", self.delete(self.group))
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group, topics=None)
        self.note("fetch at last", self.main.ask(OffsetFetchRequest(groups=[group]), 9))


if __name__ == "__main__":
    sys.stdout.write(Transcript(*sys.argv[1:]).run())
