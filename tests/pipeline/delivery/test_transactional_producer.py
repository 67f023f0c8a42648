"""The producer of Spark's tasks, against a node."""

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipeline.delivery.task_failures import TaskFailureError
from barnabas.pipeline.delivery.transactional_producer import TransactionalProducer
from barnabas.testing import Node


def test_batch_that_the_broker_refuses_as_too_large_is_a_permanent_failure_with_its_topic() -> None:
    """Otherwise the supervisor starts the job again and again."""
    with Node() as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        small = NewTopic("small", 1, 1, config={"max.message.bytes": "1000"})
        admin.create_topics([small])["small"].result(10)
        producer = TransactionalProducer(
            {"bootstrap.servers": node.bootstrap, "transactional.id": "job-small-0"}
        )
        producer.begin()
        producer.produce("small", b"x" * 5_000, None, 0, 0, None)
        with pytest.raises(TaskFailureError, match=r"as too large .*small") as caught:
            producer.commit()
        producer.abort()
    assert caught.value.failure.is_permanent
