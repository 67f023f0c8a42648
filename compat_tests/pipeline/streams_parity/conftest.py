"""The process of Kafka Streams that the modules of this folder compare with."""

from collections.abc import Iterator

import pytest

from compat_tests import jars
from compat_tests.pipeline.streams_parity.streams_peer import StreamsPeer


@pytest.fixture(scope="module")
def peer() -> Iterator[StreamsPeer]:
    if reason := jars.missing():
        pytest.skip(reason)
    with StreamsPeer() as found:
        yield found
