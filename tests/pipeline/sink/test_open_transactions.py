"""Transactions that tasks leave open, ended by another process, against a node."""

from collections.abc import Iterator
from typing import Any

import pytest

pa: Any = pytest.importorskip("pyarrow")

from confluent_kafka import Consumer, KafkaError, TopicPartition  # noqa: E402
from confluent_kafka.admin import (  # noqa: E402
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic  # noqa: E402

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError  # noqa: E402
from barnabas.pipeline.delivery.writing.record_producer import (  # noqa: E402
    AbortableError,
    FencedError,
)
from barnabas.pipeline.sink import commit_record, prepared_rows  # noqa: E402
from barnabas.pipeline.sink.commit_record import (  # noqa: E402
    CommitRecord,
    PreparedTransaction,
)
from barnabas.pipeline.sink.commits_topic import CommitsTopic  # noqa: E402
from barnabas.pipeline.sink.sink_errors import SinkError  # noqa: E402
from barnabas.pipeline.sink.sink_options import SinkOptions  # noqa: E402
from barnabas.pipeline.sink.transaction_control import TransactionControl  # noqa: E402
from barnabas.testing import Node, Security  # noqa: E402

TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture
def topic(node: Node, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name))}"
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


def options(node: Node) -> SinkOptions:
    return SinkOptions(node.bootstrap, None, "q", {})


def control(node: Node) -> TransactionControl:
    return TransactionControl(options(node).client)


def prepared(node: Node, topic: str, identity: str, values: list[str]) -> PreparedTransaction:
    batches = iter([pa.RecordBatch.from_pydict({"value": values})])
    found = prepared_rows.write(batches, topic, identity, options(node).producer(), name="q")
    assert found is not None
    return found


def visible(node: Node, topic: str) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "g", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    while (message := consumer.poll(60)) is not None:
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append((message.value() or b"").decode())
    raise AssertionError("the topic was not read to its end")


def test_prepared_rows_are_visible_when_another_process_commits_them(
    node: Node, topic: str
) -> None:
    both = [prepared(node, topic, f"{topic}-{task}", [f"{task}"]) for task in range(2)]
    assert visible(node, topic) == []
    assert control(node).ended(both) == []
    assert control(node).end(both, committed=True) == []
    assert sorted(visible(node, topic)) == ["0", "1"]
    assert control(node).end(both, committed=True) == []  # as after a lost response
    assert control(node).ended(both) == both
    assert sorted(visible(node, topic)) == ["0", "1"]


def test_rows_that_wait_for_more_are_sent_before_the_task_ends(node: Node, topic: str) -> None:
    properties = {**options(node).producer(), "linger.ms": 5_000}
    batches = iter([pa.RecordBatch.from_pydict({"value": [str(n) for n in range(100)]})])
    found = prepared_rows.write(batches, topic, f"{topic}-0", properties, name="q")
    assert found is not None
    assert control(node).end([found], committed=True) == []
    assert visible(node, topic) == [str(n) for n in range(100)]


def test_later_attempt_of_a_task_aborts_the_earlier_one(node: Node, topic: str) -> None:
    first = prepared(node, topic, f"{topic}-0", ["first"])
    second = prepared(node, topic, f"{topic}-0", ["second"])
    assert control(node).ended([first, second]) == [first]
    assert control(node).end([first, second], committed=True) == [first]
    assert visible(node, topic) == ["second"]


def test_taken_over_transaction_is_aborted(node: Node, topic: str) -> None:
    left = prepared(node, topic, f"{topic}-0", ["left"])
    control(node).take_over([left.transactional_id, f"{topic}-1"], TIMEOUT_MS)
    assert control(node).end([left], committed=True) == [left]
    assert visible(node, topic) == []


def test_task_that_fails_aborts_its_transaction(node: Node, topic: str) -> None:
    def batches() -> Iterator[Any]:
        yield pa.RecordBatch.from_pydict({"value": ["a"]})
        raise SinkError("planted")

    with pytest.raises(SinkError, match="planted"):
        prepared_rows.write(batches(), topic, f"{topic}-0", options(node).producer(), name="q")
    later = prepared(node, topic, f"{topic}-1", ["b"])
    control(node).end([later], committed=True)
    assert visible(node, topic) == ["b"]


def test_task_without_rows_has_no_transaction(node: Node, topic: str) -> None:
    producer = options(node).producer()
    assert prepared_rows.write(iter([]), topic, topic, producer, name="q") is None


def test_row_that_is_too_large_is_an_error_with_its_topic(node: Node, topic: str) -> None:
    with pytest.raises(SinkError, match=f"a row for topic {topic} is too large"):
        prepared(node, topic, f"{topic}-0", ["x" * 2_000_000])


def commits(node: Node, name: str) -> CommitsTopic:
    found = options(node)
    return CommitsTopic(name, found.producer(), found.consumer())


def test_record_is_read_by_other_processes(node: Node, topic: str) -> None:
    mine, other = commits(node, topic), commits(node, topic)
    assert other.newest() is None
    for batch in range(3):
        record = CommitRecord("d", "q", batch)
        assert mine.update(lambda _, record=record: record) == record
        assert other.newest() == record


def test_record_of_killed_writer_is_decided_when_the_topic_is_locked(
    node: Node, topic: str
) -> None:
    writer, other = commits(node, topic), commits(node, topic)
    writer.update(lambda _: CommitRecord("d"))
    producer = writer._producer
    assert producer is not None
    producer.begin()
    producer.produce(writer.name, CommitRecord("late").encode(), b"k", 0, 0, None)
    producer.flush()
    other.lock()
    with pytest.raises(FencedError):
        producer.commit()
    assert other.newest() == CommitRecord("d")


@pytest.mark.usefixtures("fenced_clients")
def test_record_follows_that_of_a_driver_that_wrote_meanwhile(node: Node, topic: str) -> None:
    first, second = commits(node, topic), commits(node, topic)
    first.update(lambda _: CommitRecord("first"))
    second.update(lambda _: CommitRecord("second"))  # fences the producer of `first`
    seen: list[CommitRecord | None] = []

    def following(last: CommitRecord | None) -> CommitRecord:
        seen.append(last)
        return CommitRecord("third")

    first.update(following)
    assert seen[-1] == CommitRecord("second")
    assert second.newest() == CommitRecord("third")
    assert commit_record.decode(None, topic) is None


def test_topic_that_was_deleted_begins_again_in_the_same_driver(node: Node, topic: str) -> None:
    """As docs/spark-sink.md says to start again under the same name, within one program."""
    found = commits(node, topic)
    found.update(lambda _: CommitRecord("d"))
    assert found.newest() == CommitRecord("d")
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.delete_topics([found.name])[found.name].result(60)
    assert found.newest() is None
    found.update(lambda _: CommitRecord("e"))
    assert found.newest() == CommitRecord("e")


def test_user_with_the_acls_of_the_page_reads_and_writes_the_commits() -> None:
    """They name no group: the reader of the topic is in none."""
    with Node(security=Security(users=["alice"])) as secured:
        admin = AdminClient(secured.client_config("admin"))
        for future in admin.create_acls([*acls_of_the_page("alice", "q")]).values():
            future.result(60)
        client = secured.client_config("alice")
        topic = CommitsTopic("q", client, client)
        for number in range(2):
            topic.update(lambda _, batch=number: CommitRecord("d", "id", batch))
        assert topic.newest() == CommitRecord("d", "id", 1)
        rows = iter([pa.RecordBatch.from_pydict({"value": ["v"]})])
        with pytest.raises(SinkError, match="with the prefix other; a stream needs"):
            prepared_rows.write(rows, "t", "other-5-0", client, name="other")


def acls_of_the_page(user: str, name: str) -> Iterator[AclBinding]:
    """Yield the rights on the commits of a query that docs/spark-sink.md names."""
    grants = [
        (ResourceType.TOPIC, f"{name}-commits", ResourcePatternType.LITERAL, "CREATE READ WRITE"),
        (ResourceType.TRANSACTIONAL_ID, name, ResourcePatternType.PREFIXED, "WRITE DESCRIBE"),
    ]
    for kind, resource, pattern, operations in grants:
        for operation in operations.split():
            yield AclBinding(
                kind, resource, pattern, f"User:{user}", "*",
                AclOperation[operation], AclPermissionType.ALLOW,
            )  # fmt: skip


def test_refusal_for_want_of_acls_names_those_to_grant() -> None:
    failure = TaskFailureError("Broker: Transactional Id authorization failed", is_permanent=True)
    shown = str(prepared_rows._shown(failure, "q"))
    assert shown.startswith("Broker: Transactional Id authorization failed. Grant Write")
    assert "transactional ids with the prefix q" in shown
    other = TaskFailureError("topic t cannot be written", is_permanent=True)
    assert str(prepared_rows._shown(other, "q")) == "topic t cannot be written"


def test_partition_that_the_topic_does_not_have_is_named_as_the_cause() -> None:
    error = AbortableError(KafkaError(KafkaError._UNKNOWN_PARTITION), "t")
    found = str(prepared_rows._shown(error, "q"))
    assert "topic t cannot be written" in found
    assert "column `partition` has a number that the topic does not have" in found
