"""The comparison of authorization with Apache Kafka: a server, rights, and what answers say.

Both servers have StandardAuthorizer on PLAINTEXT listeners, so every client is User:ANONYMOUS. The
administrator connects from 127.0.0.1, whose rights on everything are ACLs; the client of a row
connects from 127.0.0.2, and has the rights that the row's case gives it.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.protocol.apis import API
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import EncodingError
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages_base import Struct
from barnabas.protocol.types import ZERO_UUID, Uuid
from compat_tests.authorizer_rows import FIRST, SECOND, TEAM, TXN, Grant, Row, World, message
from compat_tests.servers import ServerProcess
from compat_tests.wire import Connection

ADMIN, CLIENT = "127.0.0.1", "127.0.0.2"
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Until the first ACLs; afterwards each type of resource has one.
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:admin",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "true",
}
WAIT_S, POLL_S = 60.0, 0.005
LITERAL, PREFIXED, ANY = 3, 4, 1
ALLOW, DENY = 3, 2

Acl = tuple[ResourceType, str, int, AclOperation, int]
"""Type, name, pattern, operation and permission."""

# What a client acts on: these fields of a response are compared.
COMPARED = {
    "authorized_operations",
    "cluster_authorized_operations",
    "coordinator",
    "error_code",
    "group",
    "group_id",
    "key",
    "name",
    "partition",
    "partition_error_code",
    "partition_index",
    "partition_indexes",
    "resource_name",
    "resource_type",
    "subscribed_topic_names",
    "topic",
    "topic_authorized_operations",
    "topic_config_error_code",
    "topic_name",
    "transactional_id",
}


COMPARED_NAMES = ("name", "topic", "topic_name", "topic_id", "group_id", "key", "resource_name",
                  "resource_type", "partition_index")  # fmt: skip


# The codes of refusals. Our messages of other errors say more than Kafka's.
REFUSALS = {29, 30, 31, 53}
OF_ACLS = {CreateAclsResponse.AclCreationResult, DeleteAclsResponse.DeleteAclsFilterResult}
# A coordinator that is not loaded yet.
LOADING = {14, 15, 16}
# Both servers get the same records, which retention keeps.
NOW_MS = time.time_ns() // 1_000_000


def shown(value: Any, ids: dict[Uuid, str]) -> Any:
    """Return what a response says, without what differs from run to run."""
    if isinstance(value, Struct):
        found: dict[str, Any] = {}
        for name in value.FIELDS:
            field = getattr(value, name)
            if isinstance(field, Struct | list) and name not in ("records", "brokers"):
                found[name] = shown(field, ids)
            elif isinstance(field, Uuid) and name == "topic_id":
                found[name] = ids.get(field, None if field == ZERO_UUID else "an id")
            elif name == "error_message":
                if getattr(value, "error_code", 0) in REFUSALS or type(value) in OF_ACLS:
                    found[name] = message_of(field)
            elif name in COMPARED:
                found[name] = field
        return found
    if isinstance(value, list):
        return sorted((shown(each, ids) for each in value), key=repr)
    return value


def lines(value: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each value in a nested answer, with its place."""
    if isinstance(value, dict):
        names = [str(value[name]) for name in COMPARED_NAMES if value.get(name) is not None]
        for name, each in value.items():
            yield from lines(each, f"{path}({','.join(names)}).{name}")
    elif isinstance(value, list):
        yield f"{path}: {len(value)} items"
        for each in value:
            yield from lines(each, path)
    else:
        yield f"{path} = {value!r}"


def only_in_one(ours: Any, theirs: Any) -> tuple[list[str], list[str]]:
    """Return what is only in our answer, and what is only in Kafka's."""
    one, other = Counter(lines(ours)), Counter(lines(theirs))
    return sorted((one - other).elements()), sorted((other - one).elements())


def message_of(text: str | None) -> str | None:
    """Return an error's message; Kafka's has the whole request in it, with its connection."""
    return text and re.sub(r"^Request .* needs (\w+) permission\.$", r"Request needs \1", text)


def of_host(host: str) -> dict[str, Any]:
    """Return the fields of a filter for the ACLs of connections from `host`."""
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": host,
        "operation": ANY,
        "permission_type": ANY,
    }


@attrs.define
class Secured:
    """A server with an authorizer, and the values of it that a row's request contains."""

    process: ServerProcess
    world: World = attrs.field(init=False)
    admin: Connection = attrs.field(init=False)
    controller_admin: Connection = attrs.field(init=False)

    @property
    def controller(self) -> str:
        """The address of the controller listener."""
        return f"127.0.0.1:{self.process.controller_port}"

    def call(self, request: Any, version: int) -> Any:
        """Send a request as the administrator."""
        return self.admin.call(request, version)

    def close(self) -> None:
        self.admin.close()
        self.controller_admin.close()
        self.process.close()

    def until(
        self,
        request: Any,
        version: int,
        ready: Callable[[Any], bool],
        connection: Connection | None = None,
    ) -> Any:
        """Repeat a request of the administrator until its response is ready."""
        deadline = time.monotonic() + WAIT_S
        while not ready(answer := (connection or self.admin).call(request, version)):
            assert time.monotonic() < deadline, answer
            time.sleep(POLL_S)
        return answer

    def prepare(self) -> None:
        """Create topics, offsets and a group; then leave the rights to the administrator."""
        self.process.start()
        self.admin = Connection(self.process.bootstrap, source=ADMIN)
        self.controller_admin = Connection(self.controller, source=ADMIN)
        names = [FIRST, SECOND]
        self.create_topics(*names)
        ids = self.ids(*names)
        record = Record(offset=0, timestamp=NOW_MS, key=None, value=b"value", headers=[])
        batch = build_batch([record])
        transactional = build_batch(
            [record], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        self.world = World(ids, bytes(batch), bytes(transactional))
        self.produce(FIRST)
        for key_type, key in enumerate((TEAM, TXN)):
            self.until(
                FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]),
                4,
                lambda answer: answer.coordinators[0].error_code == 0,
            )
        self.commit()
        everything = [
            (kind, "kafka-cluster" if kind is ResourceType.CLUSTER else "*", LITERAL,
             AclOperation.ALL, ALLOW)
            for kind in ResourceType if kind > ResourceType.ANY
        ]  # fmt: skip
        self.add_acls(everything, ADMIN)

    def create_topics(self, *names: str) -> None:
        topic = CreateTopicsRequest.CreatableTopic
        topics = [topic(name=name, num_partitions=1, replication_factor=1) for name in names]
        self.call(CreateTopicsRequest(topics=topics), 5)

    def ids(self, *names: str) -> dict[str, Uuid]:
        asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]

        def is_ready(answer: Any) -> bool:
            return all(not topic.error_code for topic in answer.topics)

        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = self.until(request, 12, is_ready)
        return {topic.name: topic.topic_id for topic in answer.topics}

    def produce(self, name: str) -> None:
        data = ProduceRequest.PartitionProduceData(index=0, records=self.world.batch)
        topic = ProduceRequest.TopicProduceData(name=name, partition_data=[data])
        request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])
        self.until(
            request,
            9,
            lambda answer: not answer.responses[0].partition_responses[0].error_code,
        )

    def commit(self) -> None:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=[partition])
            for name in (FIRST, SECOND)
        ]
        self.until(
            OffsetCommitRequest(group_id=TEAM, topics=topics),
            9,
            lambda answer: not answer.topics[0].partitions[0].error_code,
        )

    def add_acls(self, acls: Sequence[Acl], host: str) -> None:
        """Add ACLs for connections from `host`, and wait until the broker has them."""
        creations = [
            CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal="User:ANONYMOUS",
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for kind, name, pattern, operation, permission in acls
        ]
        if creations:
            answer = self.call(CreateAclsRequest(creations=creations), 3)
            assert [each.error_code for each in answer.results] == [0] * len(creations), answer
        self.wait_for_acls(host, len(set(acls)))

    def remove_acls(self, host: str) -> None:
        """Remove the ACLs for connections from `host`."""
        each = DeleteAclsRequest.DeleteAclsFilter(**of_host(host))
        self.call(DeleteAclsRequest(filters=[each]), 3)
        self.wait_for_acls(host, 0)

    def wait_for_acls(self, host: str, count: int) -> None:
        request = DescribeAclsRequest(**of_host(host))

        def has_them(answer: Any) -> bool:
            return sum(len(each.acls) for each in answer.resources) == count

        for connection in (self.admin, self.controller_admin):
            self.until(request, 3, has_them, connection)

    def end_offset(self, name: str) -> int:
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[asked])
        answer = self.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 4)
        return answer.topics[0].partitions[0].offset

    def ask(self, row: Row, version: int, address: str) -> Any:
        """Send the row's request as the client, again while a coordinator is loading."""
        deadline = time.monotonic() + WAIT_S
        while True:
            with Connection(address, source=CLIENT) as connection:
                response = connection.call(row.build(self.world, version), version)
            if getattr(response, "error_code", 0) not in LOADING or time.monotonic() > deadline:
                return response
            time.sleep(POLL_S)

    def refusal(self, row: Row, version: int, address: str | None = None) -> Any:
        """Return what the request is answered in a version when the client has no rights."""
        try:
            with Connection(address or self.process.bootstrap, source=CLIENT) as connection:
                response = connection.call(row.build(self.world, version), version)
        except EOFError:
            return "closed"
        return shown(response, {each: name for name, each in self.world.ids.items()})

    def answer(self, row: Row, acls: Sequence[Acl], address: str | None = None) -> Any:
        """Return what the row's request is answered under these ACLs, at the broker listener."""
        version = row.version if row.version is not None else newest(row)
        if row.api == "DeleteTopics":
            self.create_topics(SECOND)
            self.world = self.world._replace(ids=self.ids(FIRST, SECOND))
        self.add_acls(acls, CLIENT)
        try:
            response = self.ask(row, version, address or self.process.bootstrap)
        except EOFError:
            return "closed"
        finally:
            self.remove_acls(CLIENT)
        return shown(response, {each: name for name, each in self.world.ids.items()})


def versions(row: Row) -> Iterator[int]:
    """Yield the versions of an api before the newest that the row's request fits."""
    api = API[message(row.api).API_KEY]
    for version in range(api.min_version, api.advertised[1]):
        try:
            row.build(World({}, b"", b""), version).encode(version)
        except EncodingError:
            continue  # the version has no such field
        yield version


def newest(row: Row) -> int:
    return next(each.advertised[1] for each in API.values() if each.name == row.api)


def cases(row: Row) -> Iterator[tuple[str, list[Acl]]]:
    """Yield the rights that a row's request is sent with."""

    def acl(grant: Grant, pattern: int = LITERAL, permission: int = ALLOW) -> Acl:
        kind, name, operation = grant
        if pattern == PREFIXED and kind is not ResourceType.CLUSTER:
            return kind, name[:-1], PREFIXED, operation, permission
        return kind, name, LITERAL, operation, permission

    exact = [acl(grant) for grant in row.grants]
    yield "no rights", []
    if not exact:
        return
    yield "exact rights", exact
    yield "prefixed rights", [acl(grant, PREFIXED) for grant in row.grants]
    for position, grant in enumerate(row.grants):
        if len(exact) > 1:
            yield f"without {grant[2]} {grant[1]}", exact[:position] + exact[position + 1 :]
        yield f"{grant[2]} {grant[1]} denied", [*exact, acl(grant, permission=DENY)]


def is_refusal(answer: Any) -> bool:
    """True when an answer refuses something."""
    codes = {f"error_code = {code}" for code in REFUSALS}
    return any(line.endswith(tuple(codes)) for line in lines(answer))


def both(servers: list[Secured], ask: Callable[[Secured], Any]) -> tuple[Any, Any]:
    """Return the answers of both servers to the same question."""
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(ask, servers)
    return ours, theirs
