"""The consumers that a process keeps for reading the offsets of groups are limited in number."""

import gc
import weakref
from typing import Any
from unittest.mock import patch

from barnabas.pipeline.delivery.writing import offset_readers
from barnabas.pipeline.delivery.writing.offset_readers import OffsetReaders
from barnabas.testing.eventually import wait_until

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}


class Reader:
    """A consumer that connects to nothing."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings


def test_the_least_recently_used_reader_is_closed_when_nothing_uses_it() -> None:
    readers = OffsetReaders(limit=2)
    with patch.object(offset_readers, "Consumer", Reader):
        first = readers.get("a", SERVERS, is_stable=True)
        second = weakref.ref(readers.get("b", SERVERS, is_stable=True))
        assert readers.get("a", SERVERS, is_stable=True) is first
        third = readers.get("c", SERVERS, is_stable=True)
        gc.collect()
        assert second() is None
        assert readers.get("a", SERVERS, is_stable=True) is first
        assert readers.get("c", SERVERS, is_stable=True) is third
        used = readers.get("a", SERVERS, is_stable=True)
        for group in ("d", "e"):
            readers.get(group, SERVERS, is_stable=True)
        assert readers.get("a", SERVERS, is_stable=True) is not used


def test_a_reader_of_a_group_is_kept_for_each_cluster_and_isolation() -> None:
    readers = OffsetReaders()
    others = [SERVERS, {"bootstrap.servers": "127.0.0.1:2"}]
    with patch.object(offset_readers, "Consumer", Reader):
        made = [readers.get("a", each, is_stable=flag) for each in others for flag in (True, False)]
        again = [
            readers.get("a", each, is_stable=flag) for each in others for flag in (True, False)
        ]
    assert made == again
    assert len({id(each) for each in made}) == 4


def test_a_reader_that_is_not_used_is_closed() -> None:
    readers = OffsetReaders(closed_after_s=0.05)
    with patch.object(offset_readers, "Consumer", Reader):
        for _ in range(2):  # the watch ends with the last reader, and begins with the next one
            made = weakref.ref(readers.get("a", SERVERS, is_stable=True))
            wait_until(lambda made=made: made() is None)
