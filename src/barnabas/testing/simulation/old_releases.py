"""The highest versions of older releases of Apache Kafka, where they are below ours."""

from collections.abc import Mapping
from typing import Final

_FETCH, _LIST_OFFSETS, _WRITE_TXN_MARKERS = 1, 2, 27
_VOTE, _BROKER_HEARTBEAT, _ADD_RAFT_VOTER = 52, 63, 80

_VERSIONS_4_0: Final = {
    _FETCH: 17,
    _LIST_OFFSETS: 10,
    _WRITE_TXN_MARKERS: 1,
    _BROKER_HEARTBEAT: 1,
    _ADD_RAFT_VOTER: 0,
}
RELEASES: Final[Mapping[str, Mapping[int, int]]] = {
    "4.0": _VERSIONS_4_0,
    "3.9": {**_VERSIONS_4_0, _LIST_OFFSETS: 9, _VOTE: 1},
}
"""By release, and by api key.

Before 4.0 a Vote cannot be a pre-vote, and before 4.1 a Fetch does not state a high watermark.
"""
