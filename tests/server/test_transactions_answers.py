"""What a node answers about transactions, held against what Apache Kafka 4.3.0 answered.

The recording was made with `python -m tests.server.transaction_transcript`.
"""

from pathlib import Path

from barnabas.testing import Node
from tests.server.transaction_transcript import Transcript

RECORDED = Path(__file__).parent / "testdata" / "transactions_of_kafka_4.3.txt"


def test_every_answer_is_that_of_apache_kafka() -> None:
    with Node() as node:
        transcript = Transcript(node.bootstrap).run()
    assert transcript.splitlines() == RECORDED.read_text().splitlines()
