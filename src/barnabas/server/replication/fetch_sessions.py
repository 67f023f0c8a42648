"""Incremental fetch sessions (KIP-227) without I/O: Kafka's `FetchSession` and its cache.

A session keeps what a client wants to fetch, so that its requests name only what changed. Ours
also listens to its partitions: `dirty` holds those that may have something to say, so a fetch costs
what has happened since the last one and not what the session contains.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from barnabas.cluster.replication.follower_progress import FetchTime

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition
    from barnabas.protocol.types import Uuid

SLOTS_DEFAULT: Final = 1000
"""max.incremental.fetch.session.cache.slots"""
EVICTION_MS: Final = 120_000
"""A session idle for so long may go (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = (1 << 31) - 1

Key = tuple["str | Uuid", int]


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next request; 1 follows 2**31 - 1."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class FetchedPartition:
    """One partition of a fetch: the request, and the result of the current read.

    `requested` is the request's FetchPartition. `answer` is the response's PartitionData, `size`
    the bytes of its records. `high_watermark` and `log_start_offset` are the values last
    sent to the client, -1 for none. `turn` orders the partitions of a session.
    """

    __slots__ = (
        "answer",
        "has_more",
        "high_watermark",
        "key",
        "log_start_offset",
        "partition",
        "requested",
        "size",
        "turn",
    )

    def __init__(self, key: Key, requested: Any) -> None:
        self.key = key
        self.requested = requested
        self.partition: Partition | None = None
        self.answer: Any = None
        self.size = 0
        self.has_more = False
        self.high_watermark: int = -1
        self.log_start_offset: int = -1
        self.turn = 0

    def must_repeat(self) -> bool:
        """Return True when the next response says the same again, unless the client acts on it."""
        answer: Any = self.answer
        return bool(self.has_more or self.has_failed() or answer.preferred_read_replica != -1)

    def has_failed(self) -> bool:
        """Return True when the reader gets no records for an error or a divergence."""
        answer: Any = self.answer
        return bool(answer.error_code or answer.diverging_epoch.epoch >= 0)

    def may_join_isr(self, replica: int) -> bool:
        """Return True for a follower outside the ISR: each of its fetches may let it join."""
        state = None if self.partition is None else self.partition.leader_state
        return state is not None and state.is_out_of_sync(replica)

    def is_included(self) -> bool:
        """Return True when an incremental response includes the partition; note what it contains.

        After an error the next success is always included (`CachedPartition`).
        """
        answer: Any = self.answer
        must: bool = (
            self.size > 0
            or answer.error_code != 0
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.preferred_read_replica != -1
            or answer.diverging_epoch.epoch >= 0
        )
        # A follower that diverges truncates its log, and does not take the rest of the answer.
        is_taken = not answer.error_code and answer.diverging_epoch.epoch < 0
        self.high_watermark = answer.high_watermark if is_taken else -1
        self.log_start_offset = answer.log_start_offset if is_taken else -1
        return must


class Watch:
    """Listens to the partitions of a fetch: changed ones are in `dirty`.

    `wake` is called, if it is set, when the reader of a partition gets something new: records, or
    an error. Followers read to the log end, consumers to the high watermark; so an append does not
    wake consumers, and the high watermark does not wake followers.
    """

    __slots__ = ("by_id", "dirty", "is_follower", "leader_only", "partitions", "wake")

    def __init__(
        self, partitions: "dict[Key, FetchedPartition]", *, by_id: bool, is_follower: bool
    ) -> None:
        self.partitions = partitions
        self.by_id = by_id
        self.is_follower = is_follower
        self.leader_only = True
        self.dirty: set[Key] = set()
        self.wake: Callable[[], None] | None = None

    def partition_changed(self, partition: "Partition") -> None:
        """Mark the partition as dirty and wake the parked request if it has something new."""
        topic = partition.topic_id if self.by_id else partition.topic
        key = (topic, partition.partition)
        self.dirty.add(key)
        if self.wake is not None:
            fetched = self.partitions.get(key)
            if fetched is None or self._has_news(partition, fetched.requested):
                self.wake()

    def _has_news(self, partition: "Partition", requested: Any) -> bool:
        epoch: int = requested.current_leader_epoch
        is_wrong = self.leader_only and not partition.is_leader
        if is_wrong or partition.deleted or 0 <= epoch != partition.leader_epoch:
            return True
        if not partition.is_open:
            return False
        log, offset = partition.log, requested.fetch_offset
        end = log.log_end_offset if self.is_follower else log.high_watermark
        return bool(offset < end or offset < log.log_start_offset)

    def follow(self, fetched: FetchedPartition, partition: "Partition | None") -> None:
        """Listen to the partition of `fetched`, instead of the one before."""
        old = fetched.partition
        if old is not partition:
            if old is not None:
                old.listeners.pop(self, None)
            if partition is not None:
                partition.listeners[self] = None
            fetched.partition = partition


class FetchSession:
    """The partitions that one client fetches from request to request. Times in ms."""

    __slots__ = (
        "_turns",
        "acls",
        "created_ms",
        "epoch",
        "fetch_time",
        "id",
        "last_used_ms",
        "partitions",
        "privileged",
        "watch",
    )

    def __init__(self, session_id: int, *, by_id: bool, privileged: bool, now_ms: int) -> None:
        self.id = session_id
        self.privileged = privileged
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.fetch_time: FetchTime | None = None  # of a follower
        self.acls: object = None  # that the last request was authorized by
        self.partitions: dict[Key, FetchedPartition] = {}
        self.watch = Watch(self.partitions, by_id=by_id, is_follower=privileged)
        self._turns = 0

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The order of eviction: consumers' sessions before followers', smaller before larger."""
        return self.privileged, len(self.partitions), self.id

    def request(self, key: Key, requested: Any) -> None:
        """Add a partition, or change its request; it becomes dirty."""
        fetched = self.partitions.get(key)
        if fetched is None:
            fetched = self.partitions[key] = FetchedPartition(key, requested)
            self.to_end(fetched)
        else:
            fetched.requested = requested
        self.watch.dirty.add(key)

    def forget(self, key: Key) -> None:
        """Remove a partition; an unknown one is ignored."""
        fetched = self.partitions.pop(key, None)
        if fetched is not None:
            self._leave(fetched)
            self.watch.dirty.discard(key)

    def note_fetch(self, now_ms: int) -> FetchTime:
        """Return the time of the session's follower, which fetches now."""
        if self.fetch_time is None:
            self.fetch_time = FetchTime(now_ms)
        else:
            self.fetch_time.advance(now_ms)
        return self.fetch_time

    def note_answer(self, fetched: FetchedPartition, replica: int) -> None:
        """Decide whether the next request reads the partition again although nothing changed.

        After an error or a divergence, the request that was answered does not show that the
        follower is caught up, nor do the next ones before a success.
        """
        if fetched.must_repeat() or fetched.may_join_isr(replica):
            self.watch.dirty.add(fetched.key)
        if self.fetch_time is not None and fetched.has_failed():
            _stop_counting(fetched, self.fetch_time, self.fetch_time.previous_ms)

    def to_end(self, fetched: FetchedPartition) -> None:
        """Move a partition behind the others for the next response."""
        self._turns += 1
        fetched.turn = self._turns

    def take_dirty(self) -> list[FetchedPartition]:
        """Return the dirty partitions in order; none is dirty afterwards."""
        dirty = self.watch.dirty
        found = [fetched for key in dirty if (fetched := self.partitions.get(key)) is not None]
        dirty.clear()
        if len(found) > 1:
            found.sort(key=_turn)
        return found

    def close(self) -> None:
        """Stop listening; the follower does not fetch the partitions any longer."""
        for fetched in self.partitions.values():
            self._leave(fetched)

    def _leave(self, fetched: FetchedPartition) -> None:
        if self.fetch_time is not None:
            _stop_counting(fetched, self.fetch_time, self.fetch_time.last_ms)
        self.watch.follow(fetched, None)


class FetchSessionCache:
    """The sessions of a broker, at most `slots`, in the order of their last use.

    `random_id` returns positive int32 numbers.
    """

    def __init__(self, slots: int, random_id: Callable[[], int]) -> None:
        self.slots = slots
        self.evictions = 0
        self._random_id = random_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """Return the session, or None when the cache does not have it."""
        return self._sessions.get(session_id)

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Note a use of the session."""
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.id)

    def remove(self, session_id: int) -> None:
        """End a session; an unknown one is ignored."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def create(
        self, requested: Iterable[tuple[Key, Any]], *, by_id: bool, privileged: bool, now_ms: int
    ) -> FetchSession | None:
        """Return a new session, or None when the cache is full."""
        session = FetchSession(0, by_id=by_id, privileged=privileged, now_ms=now_ms)
        for key, partition in requested:
            session.request(key, partition)
        if len(self._sessions) >= self.slots and not self._evict(session, now_ms):
            return None
        while session.id == NO_SESSION or session.id in self._sessions:
            session.id = self._random_id()
        self._sessions[session.id] = session
        return session

    def _evict(self, newcomer: FetchSession, now_ms: int) -> bool:
        """Evict the oldest session if it is stale, else one of lower rank (`tryEvict`); False if
        there is none.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        victim = oldest
        if now_ms - oldest.last_used_ms <= EVICTION_MS:
            candidates = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > EVICTION_MS
                or (newcomer.privileged and not session.privileged)
            ]
            if not candidates:
                return False
            victim = min(candidates, key=_rank)
            if newcomer.rank < victim.rank:
                return False
        self.remove(victim.id)
        self.evictions += 1
        return True


def _stop_counting(fetched: FetchedPartition, time: FetchTime, at_ms: int) -> None:
    """The follower last fetched this partition at `at_ms`; later fetches do not count."""
    partition = fetched.partition
    if partition is not None and partition.leader_state is not None:
        partition.leader_state.stop_counting_fetches(time, at_ms)
        partition.commit_more()  # what waited for the follower to join the ISR


def _turn(fetched: FetchedPartition) -> int:
    return fetched.turn


def _rank(session: FetchSession) -> tuple[bool, int, int]:
    return session.rank
