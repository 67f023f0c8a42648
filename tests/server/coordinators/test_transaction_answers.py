"""The answers of a node about transactions equal those of Apache Kafka 4.3.0.

The recording was made with `python -m tests.server.coordinators.transaction_transcript`.
"""

from pathlib import Path

from barnabas.testing import Node
from tests.server.coordinators.transaction_transcript import Transcript

RECORDED = Path(__file__).parent / "testdata" / "transactions_of_kafka_4.3.txt"


def test_transaction_answers_equal_apache_kafkas() -> None:
    with Node() as node:
        transcript = Transcript(node.bootstrap).run()
    assert transcript.splitlines() == RECORDED.read_text().splitlines()
