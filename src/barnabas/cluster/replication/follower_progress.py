"""A leader's knowledge of one follower, from the follower's fetches (Kafka's `Replica`).

An incremental fetch names only the partitions that changed. It also fetches the other partitions of
its session, at the offsets named before. So they share the time of the last fetch (`FetchTime`): an
idle partition costs nothing, and its follower counts as caught up. A fetch proves nothing about a
partition that the session does not have any longer, or whose last answer was an error or a
divergence: its time no longer advances (`FollowerProgress.freeze`).
"""

from typing import Final

UNKNOWN: Final = -1


class FetchTime:
    """When a follower sent its last two fetches, in ms of a monotonic clock.

    One object serves the partitions of a fetch session that are fetched without errors, or those of
    a fetch without a session.
    """

    __slots__ = ("last_ms", "previous_ms")

    def __init__(self, now_ms: int) -> None:
        self.last_ms = self.previous_ms = now_ms

    def advance(self, now_ms: int) -> None:
        """Note the next fetch of the session."""
        self.previous_ms, self.last_ms = self.last_ms, now_ms


class FollowerProgress:
    """A follower's offsets, and when it last had everything. Times in ms of a monotonic clock.

    `log_end_offset` and `log_start_offset` are those of the follower's log, -1 before its first
    fetch from this leader. `broker_epoch` is the one of its last fetch; None before the first, -1
    when it is unknown. `is_fetching` is false when its session left the partition out, and when a
    throttle holds back the records.
    """

    __slots__ = (
        "_caught_up_ms",
        "_fetch_time",
        "_last_fetch_leader_end",
        "broker_epoch",
        "is_fetching",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch: int | None = None
        self.is_fetching = False
        self._caught_up_ms: int | None = None
        self._fetch_time: FetchTime | None = None
        self._last_fetch_leader_end = UNKNOWN

    def start_epoch(self, leader_end: int, now_ms: int, *, in_isr: bool) -> None:
        """A new leader epoch starts with its leader's log ending at `leader_end`.

        A member of the ISR gets the full lag time to fetch; another replica is out of sync.
        """
        self._caught_up_ms = now_ms if in_isr else None
        self._fetch_time = FetchTime(now_ms) if in_isr else None
        self._last_fetch_leader_end = leader_end

    def fetched(
        self,
        offset: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end: int,
        time: FetchTime,
    ) -> None:
        """Note a successful fetch at `offset`: the follower has all records below it.

        A follower that fetches from where the leader's log ended at the previous fetch was caught
        up at the time of that fetch, so that constant writes do not put it out of sync.
        """
        if offset >= leader_end:
            self._caught_up_ms = time.last_ms
        elif offset >= self._last_fetch_leader_end and self._fetch_time is not None:
            previous_ms = self._fetch_time.last_ms
            if self._fetch_time is time:
                previous_ms = time.previous_ms
            self._caught_up_ms = max(self._caught_up_ms or previous_ms, previous_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.is_fetching = True
        self._fetch_time = time
        self._last_fetch_leader_end = leader_end

    def freeze(self, time: FetchTime, at_ms: int) -> None:
        """The session with this time last fetched the partition at `at_ms`."""
        if self._fetch_time is time:
            self._fetch_time = FetchTime(at_ms)
            self.is_fetching = False

    def caught_up_ms(self) -> int | None:
        """Return when the follower last had all records, as far as is known."""
        if self._fetch_time is not None and self.log_end_offset >= self._last_fetch_leader_end:
            # It had all records at its last fetch, which did not have to name this partition.
            return max(self._caught_up_ms or 0, self._fetch_time.last_ms)
        return self._caught_up_ms

    def is_caught_up(self, leader_end: int, now_ms: int, lag_ms: int) -> bool:
        """True when it has all records, or had them within the last `lag_ms`."""
        if self.log_end_offset == leader_end:
            return True
        caught_up_ms = self.caught_up_ms()
        return caught_up_ms is not None and now_ms - caught_up_ms <= lag_ms
