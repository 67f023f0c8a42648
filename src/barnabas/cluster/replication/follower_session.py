"""A follower's side of an incremental fetch session (KIP-227).

The leader remembers the partitions of the session, so that a request lists only changed and removed
ones. `FollowerSession` remembers the same partitions; after any error both start again with a full
request.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.types import Uuid

Key = tuple[Uuid, int]
"""Topic id and partition."""

NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 0x7FFF_FFFF

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors after which a full request starts a new session."""


class FollowerSession:
    """The session with one leader; `is_full` is True while the next request lists everything."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._held: set[Key] = set()
        self._forgotten: set[Key] = set()
        self.takes_parts = True
        """False while the leader has no session for this follower: each request is complete."""

    @property
    def is_full(self) -> bool:
        """True when the next request must list every partition."""
        return self._epoch == _INITIAL_EPOCH

    @property
    def has_partitions(self) -> bool:
        """True when the leader has partitions in the session, as far as the follower knows.

        Also after a failure, until a full request has replaced the session.
        """
        return self._id != NO_SESSION and bool(self._held)

    def holds(self, key: Key) -> bool:
        """True when the leader has the partition in the session."""
        return not self.is_full and key in self._held

    def forget(self, key: Key) -> None:
        """The next requests do not include this partition."""
        if key in self._held:
            self._forgotten.add(key)

    def fill(
        self, request: FetchRequest, wanted: Iterable[tuple[Key, FetchRequest.FetchPartition]]
    ) -> None:
        """Set the session and the partitions of a request.

        `wanted` has every partition when `is_full`, otherwise the changed and new ones.
        """
        request.session_id, request.session_epoch = self._id, self._epoch
        topics: dict[Uuid, FetchRequest.FetchTopic] = {}
        if self.is_full:
            self._held.clear()
            self._forgotten.clear()
        for key, partition in wanted:
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchRequest.FetchTopic(topic_id=key[0])
            topic.partitions.append(partition)
            self._held.add(key)
            self._forgotten.discard(key)
        request.topics = list(topics.values())
        if self._forgotten:
            request.forgotten_topics_data = self._take_forgotten()

    def _take_forgotten(self) -> list[FetchRequest.ForgottenTopic]:
        topics: dict[Uuid, FetchRequest.ForgottenTopic] = {}
        for topic_id, partition in sorted(self._forgotten):
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchRequest.ForgottenTopic(topic_id=topic_id)
            topic.partitions.append(partition)
        self._held -= self._forgotten
        self._forgotten.clear()
        return list(topics.values())

    def accept(self, response: FetchResponse) -> bool:
        """Note the response to the last request; False when it does not belong to this session."""
        if response.error_code:
            self.reset(is_known=response.error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return False
        if self.is_full:
            self._id = response.session_id
            self.takes_parts = self._id != NO_SESSION or not self._held
            self._epoch = 1 if self.takes_parts else _INITIAL_EPOCH
        elif response.session_id == self._id:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        elif response.session_id == NO_SESSION:  # a leader ends a session without partitions
            self.reset(is_known=False)
        else:
            self.reset(is_known=True)
            return False
        return True

    def reset(self, *, is_known: bool) -> None:
        """Start again with a full request; the leader replaces a session that is known to it."""
        self._epoch = _INITIAL_EPOCH
        if not is_known:
            self._id = NO_SESSION
