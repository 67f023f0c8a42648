"""A follower's fetches from one leader (Kafka's AbstractFetcherThread), without I/O.

`next_request` returns the request to send, a Fetch or a ListOffsets; `on_response` and `on_failure`
take its outcome. One request is in flight at a time. The core changes the replicas' logs through
`FollowedReplica`.

A response counts only for a partition whose offset and leader epoch are still those of the request.
"""

import heapq
import logging
from typing import Final

from barnabas.cluster.replication import follower_log
from barnabas.cluster.replication.fetch_settings import FetchSettings
from barnabas.cluster.replication.followed_partition import (
    NOT_SENT,
    FetchState,
    FollowedPartition,
    FollowedReplica,
)
from barnabas.cluster.replication.follower_session import SESSION_ERRORS, FollowerSession, Key
from barnabas.cluster.replication.replication_quota import ReplicationQuota
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

logger = logging.getLogger(__name__)

Request = FetchRequest | ListOffsetsRequest
OffsetAnswer = ListOffsetsResponse.ListOffsetsPartitionResponse

_REPLICA_STATE_VERSION: Final = 15
_LATEST: Final = -1
_EARLIEST: Final = -2
_FIRST_BACKOFF_MS: Final = 50
_THROTTLE_CHECK_MS: Final = 100
_PARTITIONS_PER_REQUEST_MAX: Final = 200
"""New partitions of a request to a leader; more are added by the next ones, which do not wait.

A leader reads every partition of a request before it serves other clients.
"""

_FATAL: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR})
"""Errors of the follower's own log after which it waits for the next leader epoch."""

_STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors of a leader that has not applied the metadata of its election yet, or of an older one.

They pass soon, so the first retries do not wait for the whole backoff.
"""


class FetcherCore:
    """The partitions that this broker fetches from one leader over one connection."""

    def __init__(self, broker_id: int, settings: FetchSettings, quota: ReplicationQuota) -> None:
        self.settings = settings
        self.partitions: dict[Key, FollowedPartition] = {}
        self._broker_id = broker_id
        self._quota = quota
        self._session = FollowerSession()
        self._fetching: dict[Key, FollowedPartition] = {}
        self._changed: dict[Key, FollowedPartition] = {}  # not in the session as they are now
        self._delays: list[tuple[int, int, FollowedPartition]] = []
        self._delay_count = 0
        self._throttled: dict[Key, FollowedPartition] = {}
        self._out_of_range: dict[Key, FollowedPartition] = {}
        self._in_flight: Request | None = None
        self._failures = 0
        self._paused_until_ms = 0
        self._wall_ms = 0

    # Partitions

    def follow(self, replica: FollowedReplica, leader_epoch: int) -> None:
        """Fetch a partition in this leader epoch; nothing changes when that is done already."""
        key = (replica.topic_id, replica.partition)
        found = self.partitions.get(key)
        if found is not None:
            if found.leader_epoch == leader_epoch and found.replica is replica:
                return
            self.unfollow(key)
        followed = self.partitions[key] = FollowedPartition(key, replica, leader_epoch)
        try:
            follower_log.truncate_without_epochs(replica.log)
            followed.read_log()
        except KafkaError as error:
            self._fail(followed, f"cannot use the log: {error}")
            return
        self._fetch(followed)

    def unfollow(self, key: Key) -> None:
        """Do not fetch a partition any longer; a response in flight is ignored for it."""
        followed = self.partitions.pop(key, None)
        if followed is not None:
            self._leave(followed, FetchState.FAILED)

    @property
    def failed_count(self) -> int:
        """The number of partitions that wait for another leader epoch."""
        return sum(each.state is FetchState.FAILED for each in self.partitions.values())

    def _fetch(self, followed: FollowedPartition) -> None:
        followed.state = FetchState.FETCHING
        self._fetching[followed.key] = self._changed[followed.key] = followed

    def _leave(self, followed: FollowedPartition, state: FetchState) -> None:
        """Leave the fetches for another state."""
        followed.state = state
        followed.sent = NOT_SENT
        if self._fetching.pop(followed.key, None) is not None:
            self._changed.pop(followed.key, None)
            self._session.forget(followed.key)
        self._throttled.pop(followed.key, None)
        self._out_of_range.pop(followed.key, None)

    def _fail(self, followed: FollowedPartition, reason: object) -> None:
        logger.error(
            "partition failed, waiting for the next leader epoch partition=%s leader_epoch=%d"
            " error=%s",
            followed,
            followed.leader_epoch,
            reason,
        )
        self._leave(followed, FetchState.FAILED)

    def _delay(self, followed: FollowedPartition, delay_ms: int, now_ms: int) -> None:
        self._leave(followed, FetchState.DELAYED)
        followed.retry_ms = now_ms + delay_ms
        self._delay_count += 1
        heapq.heappush(self._delays, (followed.retry_ms, self._delay_count, followed))

    # Requests

    def next_request(self, now_ms: int, *, version: int, broker_epoch: int) -> Request | None:
        """Return the request to send now; None when there is none before `wakeup_ms`.

        `version` is that of Fetch. Raises nothing.
        """
        if self._in_flight is not None or now_ms < self._paused_until_ms:
            return None
        self._end_delays(now_ms)
        self._throttle(now_ms)
        request = self._list_offsets() or self._next_fetch(version, broker_epoch)
        self._in_flight = request
        return request

    def wakeup_ms(self, now_ms: int) -> int | None:
        """Return when `next_request` may return a request without another event; None for never."""
        if self._in_flight is not None:
            return None
        times: list[int] = []
        if self._fetching or self._out_of_range:
            times.append(now_ms)
        if self._delays:
            times.append(self._delays[0][0])
        if self._throttled:
            times.append(now_ms + _THROTTLE_CHECK_MS)
        return max(min(times), self._paused_until_ms) if times else None

    def _next_fetch(self, version: int, broker_epoch: int) -> FetchRequest | None:
        if not self._fetching and not self._must_end_session:
            return None
        settings = self.settings
        request = FetchRequest(
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
        )
        if version >= _REPLICA_STATE_VERSION:
            request.replica_state = FetchRequest.ReplicaState(
                replica_id=self._broker_id, replica_epoch=broker_epoch
            )
        else:
            request.replica_id = self._broker_id
        limit = settings.partition_max_bytes
        wanted = self._take_wanted()
        if self._changed or not self._fetching:
            request.max_wait_ms = 0
        self._session.fill(request, [(key, each.request(limit)) for key, each in wanted])
        return request

    def _take_wanted(self) -> list[tuple[Key, FollowedPartition]]:
        """Return the partitions to list in the next request; the others stay in `_changed`.

        The leader would read a partition of the session again at its earlier offset, so only new
        ones wait for a later request.
        """
        session = self._session
        wanted = self._fetching if session.is_full else self._changed
        listed = list(wanted.items())
        left: dict[Key, FollowedPartition] = {}
        if len(listed) > _PARTITIONS_PER_REQUEST_MAX and session.takes_parts:
            new = [each for each in listed if not session.holds(each[0])]
            left = dict(new[_PARTITIONS_PER_REQUEST_MAX:])
            listed = [each for each in listed if each[0] not in left]
        self._changed = left
        return listed

    def _end_delays(self, now_ms: int) -> None:
        delays = self._delays
        while delays and delays[0][0] <= now_ms:
            retry_ms, _, followed = heapq.heappop(delays)
            if followed.state is FetchState.DELAYED and followed.retry_ms == retry_ms:
                self._fetch(followed)

    def _throttle(self, now_ms: int) -> None:
        """Leave throttled partitions that are not in sync out of the fetch (KIP-73)."""
        quota = self._quota
        if not self._throttled and quota.throttles_nothing:
            return
        if quota.is_exceeded(now_ms):
            for followed in list(self._fetching.values()):
                if not followed.is_in_sync and self._is_throttled(followed):
                    self._leave(followed, FetchState.THROTTLED)
                    self._throttled[followed.key] = followed
        else:
            for followed in self._throttled.values():
                self._fetch(followed)
            self._throttled.clear()

    @property
    def _must_end_session(self) -> bool:
        """True when the leader may wait for throttled partitions, and no other one is fetched."""
        return bool(self._throttled) and self._session.has_partitions

    def _is_throttled(self, followed: FollowedPartition) -> bool:
        return self._quota.is_throttled(followed.replica.topic, followed.key[1])

    def _list_offsets(self) -> ListOffsetsRequest | None:
        """Return a request for the leader's log end, or its log start where the end is known."""
        if not self._out_of_range:
            return None
        topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
        for followed in self._out_of_range.values():
            name = followed.replica.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = ListOffsetsRequest.ListOffsetsTopic(name=name)
            followed.sent = (followed.fetch_offset, followed.leader_epoch)
            topic.partitions.append(
                ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=followed.key[1],
                    current_leader_epoch=followed.leader_epoch,
                    timestamp=_LATEST if followed.leader_end is None else _EARLIEST,
                )
            )
        return ListOffsetsRequest(replica_id=self._broker_id, topics=list(topics.values()))

    # Responses

    def on_failure(self, now_ms: int) -> None:
        """The request failed without a response: connect again after a backoff."""
        self._in_flight = None
        self._session.reset(is_known=True)
        self._pause(now_ms)

    @property
    def is_behind(self) -> bool:
        """True when partitions wait for a request, because another one is held open."""
        request = self._in_flight
        is_immediate = isinstance(request, FetchRequest) and request.max_wait_ms == 0
        return request is not None and not is_immediate and bool(self._changed)

    def on_abandoned(self) -> None:
        """The request is given up with its connection; the next one lists everything."""
        self._in_flight = None
        self._session.reset(is_known=True)

    def _pause(self, now_ms: int) -> None:
        self._paused_until_ms = now_ms + self._backoff_ms(self._failures)
        self._failures += 1

    def _backoff_ms(self, failures: int) -> int:
        return min(_FIRST_BACKOFF_MS << min(failures, 10), self.settings.backoff_ms)

    def on_response(
        self, response: FetchResponse | ListOffsetsResponse, now_ms: int, *, wall_ms: int
    ) -> None:
        """Apply the response to the last request.

        `now_ms` is the monotonic clock of all delays, `wall_ms` the time for segments' ages.
        """
        self._in_flight = None
        self._wall_ms = wall_ms
        if isinstance(response, ListOffsetsResponse):
            self._failures = 0
            self._on_offsets(response, now_ms)
        else:
            self._on_fetch(response, now_ms)

    def _on_fetch(self, response: FetchResponse, now_ms: int) -> None:
        if not self._session.accept(response):
            if self._failures or response.error_code not in {0, *SESSION_ERRORS}:
                name = error_code(response.error_code).name
                logger.warning("the leader refused the fetch error=%s", name)
                self._pause(now_ms)
            else:
                self._failures += 1  # the next full request is sent at once, but only once
            return
        self._failures = 0
        for topic in response.responses:
            for answer in topic.partitions:
                followed = self._fetching.get((topic.topic_id, answer.partition_index))
                if followed is not None and followed.sent == (
                    followed.fetch_offset,
                    followed.leader_epoch,
                ):
                    self._on_partition(followed, answer, now_ms)

    def _on_partition(
        self, followed: FollowedPartition, answer: FetchResponse.PartitionData, now_ms: int
    ) -> None:
        """Apply one partition's part; an error of it does not affect other partitions."""
        try:
            if answer.error_code:
                self._on_error(followed, answer.error_code, now_ms)
            elif answer.diverging_epoch.epoch >= 0:
                self._truncate(followed, answer.diverging_epoch)
            else:
                self._append(followed, answer, now_ms)
        except KafkaError as error:
            self._on_own_error(followed, error, now_ms)
        except Exception as error:
            logger.exception("replication failed partition=%s", followed)
            self._fail(followed, error)

    def _append(
        self, followed: FollowedPartition, answer: FetchResponse.PartitionData, now_ms: int
    ) -> None:
        replica, log = followed.replica, followed.replica.log
        followed.retries = 0
        records = answer.records
        if records:
            if log.log_end_offset != followed.fetch_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"the log ends at {log.log_end_offset}, not at the fetched offset"
                    f" {followed.fetch_offset}",
                )
            try:
                replica.follower_append(records, followed.leader_epoch, self._wall_ms)
            finally:
                followed.fetch_offset = log.log_end_offset  # batches before a damaged one
                self._moved(followed)
            if self._is_throttled(followed):
                self._quota.record(len(records), now_ms)
        replica.follow_high_watermark(answer.high_watermark)
        replica.follow_log_start(answer.log_start_offset)
        followed.last_fetched_epoch = log.latest_epoch
        followed.lag = max(answer.high_watermark - log.log_end_offset, 0)
        if log.log_start_offset != followed.log_start_offset:
            followed.log_start_offset = log.log_start_offset
            self._moved(followed)

    def _moved(self, followed: FollowedPartition) -> None:
        """Send the partition with the next request, after those that had no records."""
        if followed.state is FetchState.FETCHING:
            self._changed[followed.key] = self._fetching[followed.key] = self._fetching.pop(
                followed.key
            )

    def _truncate(
        self, followed: FollowedPartition, diverging: FetchResponse.EpochEndOffset
    ) -> None:
        """Remove what the leader does not have; the next fetch may diverge again (KIP-279)."""
        log = followed.replica.log
        offset = follower_log.truncation_offset(log, diverging.epoch, diverging.end_offset)
        logger.info(
            "truncating to the leader's log partition=%s offset=%d log_end=%d"
            " leader_epoch=%d leader_end=%d",
            followed,
            offset,
            log.log_end_offset,
            diverging.epoch,
            diverging.end_offset,
        )
        followed.replica.truncate_to(offset)
        followed.read_log()
        self._moved(followed)

    def _on_own_error(self, followed: FollowedPartition, error: KafkaError, now_ms: int) -> None:
        """Handle an error of the follower's own log or of the received records."""
        if error.code in _FATAL or error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._fail(followed, error)
            return
        logger.error("cannot append fetched records partition=%s error=%s", followed, error)
        followed.last_fetched_epoch = followed.replica.log.latest_epoch
        self._delay(followed, self.settings.backoff_ms, now_ms)

    def _on_error(self, followed: FollowedPartition, code: int, now_ms: int) -> None:
        """Handle the leader's error for one partition."""
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            logger.info(
                "leader has a later epoch, waiting for it partition=%s leader_epoch=%d",
                followed,
                followed.leader_epoch,
            )
            self._leave(followed, FetchState.FAILED)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.leader_end = None
            self._leave(followed, FetchState.OUT_OF_RANGE)
            self._out_of_range[followed.key] = followed
        elif code in _STALE_METADATA:
            self._delay(followed, self._backoff_ms(followed.retries), now_ms)
            followed.retries += 1
        else:
            name = error_code(code).name
            logger.warning("the leader refused the fetch partition=%s error=%s", followed, name)
            self._delay(followed, self.settings.backoff_ms, now_ms)

    # Offsets out of the leader's range

    def _on_offsets(self, response: ListOffsetsResponse, now_ms: int) -> None:
        answers = {
            (topic.name, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        for followed in list(self._out_of_range.values()):
            if followed.sent != (followed.fetch_offset, followed.leader_epoch):
                continue
            answer = answers.get((followed.replica.topic, followed.key[1]))
            try:
                if answer is None or (answer.error_code or answer.offset < 0):
                    code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else answer.error_code
                    self._on_error(followed, code, now_ms)
                else:
                    self._use_offset(followed, answer, now_ms)
            except KafkaError as error:
                self._on_own_error(followed, error, now_ms)

    def _use_offset(self, followed: FollowedPartition, answer: OffsetAnswer, now_ms: int) -> None:
        """Truncate to the leader's log end, or start at its log start.

        A leader that ends below this log was elected uncleanly. Otherwise the leader removed the
        records that this log lacks.
        """
        replica, log = followed.replica, followed.replica.log
        if followed.leader_end is None and answer.offset >= log.log_end_offset:
            followed.leader_end = answer.offset
            followed.sent = NOT_SENT
            return
        if followed.leader_end is None:
            logger.warning(
                "truncating to the end of the leader's log partition=%s offset=%d log_end=%d",
                followed,
                answer.offset,
                log.log_end_offset,
            )
            replica.truncate_to(answer.offset)
        elif answer.offset > log.log_end_offset:
            logger.warning(
                "restarting at the start of the leader's log partition=%s offset=%d log_end=%d",
                followed,
                answer.offset,
                log.log_end_offset,
            )
            replica.truncate_fully_and_start_at(answer.offset)
        followed.leader_end = None
        followed.read_log()
        followed.fetch_offset = log.log_end_offset
        self._leave(followed, FetchState.FETCHING)
        if followed.retries:
            self._delay(followed, self._backoff_ms(followed.retries), now_ms)
        else:
            self._fetch(followed)
        followed.retries += 1  # until a fetch succeeds
