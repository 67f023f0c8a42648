"""The answers of a node about groups equal those of Apache Kafka 4.3.0.

The recording was made with `python -m tests.server.coordinators.group_transcript`, a topic of two
partitions, and group.initial.rebalance.delay.ms=0.
"""

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Node
from tests.server.coordinators.group_transcript import Transcript

RECORDED = Path(__file__).parent / "testdata" / "groups_of_kafka_4.3.txt"


def test_group_answers_equal_apache_kafkas() -> None:
    with Node(config={"group.initial.rebalance.delay.ms": "0"}) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(60)
        transcript = Transcript(node.bootstrap, "t").run()
    assert transcript.splitlines() == RECORDED.read_text().splitlines()
