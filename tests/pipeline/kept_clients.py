"""The Kafka clients that a process keeps from task to task, which tests close.

A worker keeps them as long as it runs. In a process of tests they would connect to the nodes of
former tests without end: 64 of them take a quarter to a half of a processor.
"""

from barnabas.pipeline.delivery.forward.range_reader import READERS
from barnabas.pipeline.delivery.writing import plain_delivery, transactional_producer
from barnabas.pipeline.delivery.writing.record_writers import WRITERS


def close_kept_clients() -> None:
    """Close the clients that this process keeps and that no task uses."""
    WRITERS.clear()
    transactional_producer.PRODUCERS.clear()
    transactional_producer.READERS.clear()
    plain_delivery.PRODUCERS.clear()
    READERS.clear()
