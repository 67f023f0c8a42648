"""The offsets up to which the followers of the quorum's leader have applied the metadata.

A fetch states the high watermark of its sender (KIP-1166), which has then applied all records
below. Followers that state none, as before Fetch version 18, count as up to date.
"""

from collections.abc import Generator, Set
from contextlib import contextmanager
from typing import Final

import attrs

from barnabas import tasks

PATIENCE_S: Final = 0.5
"""The longest wait for followers, and the time after which an absent one is not waited for."""


@attrs.define(slots=True)
class _Follower:
    applied: int = -1
    fetches: int = 0
    """The fetches that wait for an answer."""
    answered_at: float = -1.0

    def lacks(self, offset: int, now: float) -> bool:
        """True when the follower takes part at the moment, and has not applied all below."""
        is_present = self.fetches > 0 or now - self.answered_at < PATIENCE_S
        return is_present and self.applied < offset


class FollowerOffsets:
    """The offsets that followers have applied, by node id."""

    def __init__(self) -> None:
        self._followers: dict[int, _Follower] = {}
        self._moved = tasks.event()

    @contextmanager
    def fetching(self, node_id: int, high_watermark: int) -> Generator[None]:
        """Note a follower's fetch, which states this high watermark, until it is answered."""
        follower = self._followers.setdefault(node_id, _Follower())
        follower.applied = high_watermark
        follower.fetches += 1
        moved, self._moved = self._moved, tasks.event()
        moved.set()
        try:
            yield
        finally:
            follower.fetches -= 1
            follower.answered_at = tasks.current_time()

    async def wait(self, offset: int, node_ids: Set[int]) -> None:
        """Return when these nodes have applied all records below `offset`.

        A node that does not fetch delays this once, by `PATIENCE_S` at most: later calls do not
        wait for it until its next fetch.
        """
        with tasks.move_on_after(PATIENCE_S):
            while self._is_behind(offset, node_ids):
                await self._moved.wait()

    def _is_behind(self, offset: int, node_ids: Set[int]) -> bool:
        now = tasks.current_time()
        known = self._followers.keys() & node_ids
        return any(self._followers[node_id].lacks(offset, now) for node_id in known)
