"""The clients that a process keeps from task to task are closed after each test.

A worker keeps them as long as it runs. Here they would connect to the nodes of former tests without
end, which takes a quarter of a processor.
"""

from collections.abc import Iterator

import pytest

from barnabas.pipeline.delivery.forward.range_reader import READERS
from barnabas.pipeline.delivery.writing import plain_delivery, transactional_producer


@pytest.fixture(autouse=True)
def _kept_clients() -> Iterator[None]:
    yield
    transactional_producer.PRODUCERS.clear()
    transactional_producer.READERS.clear()
    plain_delivery.PRODUCERS.clear()
    while READERS._readers:
        READERS._readers.popitem()[1][0].close()
