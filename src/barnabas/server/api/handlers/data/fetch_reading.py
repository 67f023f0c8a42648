"""One Fetch request from its first read to its response.

The partitions of a session that did not change are neither read nor included. Records are file
slices, which the connection sends without reading them.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from barnabas.cluster.replication.follower_progress import FetchTime
from barnabas.cluster.replication.replica_selection import NO_PREFERENCE
from barnabas.log import FileSlice
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.server.api.handler_services import DataContext
from barnabas.server.api.handlers.data.aborted_transactions import aborted_in
from barnabas.server.api.handlers.data.fetch_leaders import add_leaders
from barnabas.server.api.handlers.data.leader_throttle import LeaderThrottle
from barnabas.server.api.handlers.data.read_replica import (
    FOLLOWERS_VERSION,
    client_rack,
    finder,
    preferred_read_replica,
)
from barnabas.server.replication.fetch_sessions import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchSession,
    Key,
    Watch,
    next_epoch,
)
from barnabas.sockets.file_ranges import INLINE_BYTES_MAX, read_if_cached

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition
    from barnabas.server.api.handlers.data.fetch_access import FetchAccess

PartitionData = FetchResponse.PartitionData

TOPIC_IDS_VERSION: Final = 13
_ENDPOINTS_VERSION: Final = 16
_READ_COMMITTED: Final = 1
_UNREAD: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
# The number of files that one response may keep open until it is sent.
_FILES_MAX: Final = 64
# What a quota counts for a response and for each partition, in addition to the records.
_RESPONSE_BYTES: Final = 16
_PARTITION_BYTES: Final = 60


def requested_partitions(
    request: FetchRequest, *, by_id: bool
) -> Iterable[tuple[Key, FetchRequest.FetchPartition]]:
    """Yield the partitions that a request lists, by the key that its version uses."""
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for requested in topic.partitions:
            yield (name, requested.partition), requested


def _access(
    context: DataContext, session: FetchSession | None, by_id: bool, *, is_follower: bool
) -> "FetchAccess":
    from barnabas.server.api.handlers.data.fetch_access import FetchAccess

    return FetchAccess(context, session, by_id=by_id, is_follower=is_follower)


class Fetching:
    """One Fetch request from its first read to its response. Sizes in bytes."""

    __slots__ = (
        "_access",
        "_by_id",
        "_client_rack",
        "_context",
        "_fetch_time",
        "_files",
        "_find",
        "_is_due",
        "_is_new",
        "_looked_at",
        "_max_bytes",
        "_min_bytes",
        "_quota",
        "_replica",
        "_replica_epoch",
        "_request",
        "_session",
        "_size",
        "_throttle",
        "_watch",
    )

    def __init__(
        self, context: DataContext, request: FetchRequest, session: FetchSession | None
    ) -> None:
        version = context.version
        self._context = context
        self._request = request
        self._session = session
        self._by_id = version >= TOPIC_IDS_VERSION
        self._replica, self._replica_epoch = request.replica_id, -1
        if version >= 15:
            self._replica = request.replica_state.replica_id
            self._replica_epoch = request.replica_state.replica_epoch
        self._access: FetchAccess | None = None
        if context.route.authorizer is not None:
            self._access = _access(context, session, self._by_id, is_follower=self._replica >= 0)
        self._find = finder(context, self._by_id, is_consumer=self._replica < 0)
        self._throttle = LeaderThrottle.of(context.services.replicas, self._replica)
        self._client_rack = client_rack(context, request, is_consumer=self._replica < 0)
        self._quota = context.services.quotas.fetch if self._replica < 0 else None
        limit: int = context.services.settings.current.get("fetch.max.bytes")
        if self._quota is not None:
            limit = self._quota.response_bytes_max(context, limit)
        self._max_bytes = min(request.max_bytes, limit)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._size = 0
        self._files = 0  # files that the response keeps open
        self._is_due = False  # answered at once: an error, divergence, another replica
        self._watch: Watch | None = None
        self._is_new = True
        self._fetch_time = self._note_fetch() if self._replica >= 0 else None
        self._looked_at: dict[Key, FetchedPartition]
        if session is not None:
            wanted = session.take_dirty()
            self._watch = session.watch
            self._looked_at = {fetched.key: fetched for fetched in wanted}
        else:
            self._looked_at = {
                key: FetchedPartition(key, requested)
                for key, requested in requested_partitions(request, by_id=self._by_id)
            }
        if self._access is not None:
            self._access.decide(self._looked_at)
        for fetched in self._looked_at.values():
            self._look_at(fetched)
        # To read again while the request is parked says nothing new about the follower.
        self._is_new = False

    def _note_fetch(self) -> FetchTime:
        """Return the time of this follower's fetch; partitions of a session share it."""
        now_ms = self._context.services.clock.monotonic_ms()
        session = self._session
        return FetchTime(now_ms) if session is None else session.note_fetch(now_ms)

    def is_satisfied(self) -> bool:
        """True when the response is complete: enough bytes, an error, or no partitions."""
        if self._size >= self._min_bytes or self._is_due:
            return True
        return not self._looked_at and self._session is None

    # Waiting

    def start_watching(self) -> Watch:
        """Listen to the partitions; a session already does."""
        watch = self._watch
        if watch is None:
            is_follower = self._replica >= 0
            watch = self._watch = Watch(self._looked_at, by_id=self._by_id, is_follower=is_follower)
            for fetched in self._looked_at.values():
                if fetched.partition is not None:
                    fetched.partition.listeners[watch] = None
        watch.leader_only = self._replica >= 0 or self._context.version < FOLLOWERS_VERSION
        return watch

    def stop_watching(self) -> None:
        """Stop listening, except for a session, which keeps listening."""
        watch = self._watch
        if self._session is None and watch is not None:
            for fetched in self._looked_at.values():
                if fetched.partition is not None:
                    fetched.partition.listeners.pop(watch, None)

    def look_again(self) -> bool:
        """Read the changed partitions; return True when the fetch is satisfied."""
        session, watch = self._session, self._watch
        if self._is_superseded():
            return True
        if watch is None or not watch.dirty:
            return False
        if session is not None:
            changed = session.take_dirty()
            for fetched in changed:
                self._looked_at[fetched.key] = fetched
        else:
            changed = [self._looked_at[key] for key in watch.dirty]
            watch.dirty.clear()
        for fetched in changed:
            self._look_at(fetched)
        return self.is_satisfied()

    def _is_superseded(self) -> bool:
        """True when a later request of the session has arrived: what changed is for that one."""
        session = self._session
        return session is not None and session.epoch != next_epoch(self._request.session_epoch)

    # Reading

    def _look_at(self, fetched: FetchedPartition) -> None:
        self._size -= fetched.size
        if fetched.answer is not None and type(fetched.answer.records) is FileSlice:
            self._files -= 1
        fetched.size = 0
        fetched.has_more = False
        requested = fetched.requested
        try:
            if self._access is not None:
                self._access.check(fetched.key)
            partition = self._find(*fetched.key, requested.current_leader_epoch)
            if self._session is not None:
                self._session.watch.follow(fetched, partition)
            else:
                fetched.partition = partition
            fetched.answer = self._read(fetched, partition, requested)
        except KafkaError as error:
            code = error.code
            if code is ErrorCode.UNKNOWN_TOPIC_ID and fetched.partition is not None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # its id was known before
            fetched.answer = self._refused(fetched, code)
            self._is_due = True

    def _read(
        self,
        fetched: FetchedPartition,
        partition: "Partition",
        requested: FetchRequest.FetchPartition,
    ) -> PartitionData:
        isolation_level = self._request.isolation_level
        log = partition.log
        offset = requested.fetch_offset
        if self._replica >= 0:
            with_epoch = requested.current_leader_epoch >= 0
            partition.check_follower(self._replica, with_epoch=with_epoch)
        end = partition.fetchable_end(isolation_level, follower=self._replica >= 0)
        start = log.log_start_offset
        answer = PartitionData(
            partition_index=requested.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=start,
            aborted_transactions=[] if isolation_level == _READ_COMMITTED else None,
            records=b"",
        )
        if self._client_rack:
            answer.preferred_read_replica = self._preferred_replica(partition, offset)
            if answer.preferred_read_replica != NO_PREFERENCE:
                self._is_due = True
                return answer
        if requested.last_fetched_epoch >= 0 and self._diverges(partition, requested, answer):
            self._is_due = True
            return answer
        if not start <= offset <= log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {partition.topic}-{partition.partition} is not within "
                f"{start} and {log.log_end_offset}",
            )
        if self._is_new and self._replica >= 0:
            # Only now, when the offset is known to be within this log and the logs not to diverge.
            partition.follower_fetched(
                self._replica,
                offset,
                requested.log_start_offset,
                self._replica_epoch,
                self._fetch_time,
            )
            answer.high_watermark = log.high_watermark
        if offset < end:
            if self._throttle is not None and self._throttle.holds_back(partition):
                fetched.has_more = True
            else:
                self._fill(fetched, partition, answer, end)
        return answer

    def _fill(
        self, fetched: FetchedPartition, partition: "Partition", answer: PartitionData, end: int
    ) -> None:
        """Add the records below `end`, as far as the response has room."""
        log, requested = partition.log, fetched.requested
        offset = requested.fetch_offset
        room = self._max_bytes - self._size
        if room <= 0 and self._size:
            fetched.has_more = True
            return
        limit = min(requested.partition_max_bytes, max(room, 0))
        records = log.read(offset, limit, upper_bound=end, min_one_message=not self._size)
        size = len(records)
        if size:
            if self._request.isolation_level == _READ_COMMITTED:
                answer.aborted_transactions = aborted_in(log, offset, records, end)
            included = self._included(records)
            if included is not None:
                fetched.size = size
                self._size += size
                answer.records = included
        fetched.has_more = True

    def _preferred_replica(self, partition: "Partition", offset: int) -> int:
        replicas = self._context.services.replicas
        return preferred_read_replica(
            partition,
            replicas.image,
            self._client_rack,
            self._context.connection.listener_name,
            offset,
            replicas.clock.monotonic_ms(),
        )

    def _included(self, records: FileSlice) -> FileSlice | bytearray | None:
        """Return the records as the response includes them; None leaves them to a later fetch.

        A response keeps few files open, however many partitions it has; beyond those it contains
        small records as bytes.
        """
        if self._files < _FILES_MAX or records.file is None:
            self._files += 1
            return records
        data = None
        if records.size <= INLINE_BYTES_MAX:
            data = read_if_cached(records.file.fileno(), records.position, records.size)
        if data is None:
            self._min_bytes = 0  # the response omits records, so it is sent at once
        return data

    def _diverges(
        self, partition: "Partition", requested: FetchRequest.FetchPartition, answer: PartitionData
    ) -> bool:
        """Return True when the reader's log diverges from this one (KIP-595), and set the place."""
        epoch, end_offset = partition.end_offset_for_epoch(requested.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the end of epoch {requested.last_fetched_epoch} is unknown",
            )
        if requested.fetch_offset < partition.log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "below the log start offset")
        if epoch >= requested.last_fetched_epoch and end_offset >= requested.fetch_offset:
            return False
        answer.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return True

    def _refused(self, fetched: FetchedPartition, code: ErrorCode) -> PartitionData:
        # These are answered without regard to the isolation level, as in Kafka.
        unread = code in _UNREAD
        listed = unread or self._request.isolation_level == _READ_COMMITTED
        return PartitionData(
            partition_index=fetched.requested.partition,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=[] if listed else None,
            records=b"",
        )

    # Answering

    def response(self) -> FetchResponse:
        """Return the response with what was read so far.

        It is empty when a quota holds the client back (`getThrottledResponse`).
        """
        if self._exceeds_quota():
            return self._throttled()
        request, session = self._request, self._session
        if self._throttle is not None:
            self._throttle.count(self._looked_at.values())
        answered: Iterable[FetchedPartition] = self._looked_at.values()
        session_id = NO_SESSION
        if session is not None:
            if self._is_superseded():
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            answered = self._changed(session)
            session_id = session.id
        elif request.session_epoch == INITIAL_EPOCH and self._context.version >= 7:
            session_id = self._start_session()
        response = FetchResponse(session_id=session_id, responses=self._by_topic(answered))
        if self._is_due and self._context.version >= _ENDPOINTS_VERSION:
            add_leaders(self._context, response, answered)
        for fetched in self._looked_at.values():
            fetched.answer = None  # a session would keep its files open
        return response

    def _response_bytes(self) -> int:
        """Return about the size of the response; a session omits partitions without records."""
        is_full = self._session is None
        return _RESPONSE_BYTES + sum(
            each.size + _PARTITION_BYTES
            for each in self._looked_at.values()
            if each.size or is_full
        )

    def _exceeds_quota(self) -> bool:
        """Return True when the client must wait; then the bytes of the response do not count."""
        context, quota = self._context, self._quota
        times = context.services.quotas.request_time
        if self._replica >= 0:
            if times is not None:
                times.exempt(context)
            return False
        is_late = times is not None and times.charge(context)
        if quota is None:
            return is_late
        size = self._response_bytes()
        if quota.refuses(context, size):
            return True
        if is_late:
            quota.take_back(context, size)
        return is_late

    def _throttled(self) -> FetchResponse:
        """Return a response without partitions; the next request of a session reads them again."""
        session = self._session
        for fetched in self._looked_at.values():
            fetched.answer = None
            fetched.size = 0
        if session is None:
            return FetchResponse(responses=[])
        session.watch.dirty.update(self._looked_at)
        if self._is_superseded():
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return FetchResponse(session_id=session.id, responses=[])

    def _changed(self, session: FetchSession) -> list[FetchedPartition]:
        """Return the partitions that an incremental response includes; the others are unchanged."""
        changed: list[FetchedPartition] = []
        for fetched in self._looked_at.values():
            session.note_answer(fetched, self._replica)
            if fetched.is_included():
                changed.append(fetched)
                if fetched.size:
                    session.to_end(fetched)
            fetched.size = 0
        return changed

    def _start_session(self) -> int:
        """Create a session for the request if there is room; return its id, or 0."""
        context = self._context
        session = context.services.fetch_sessions.create(
            ((fetched.key, fetched.requested) for fetched in self._looked_at.values()),
            by_id=self._by_id,
            privileged=self._replica >= 0 and (self._access is None or self._access.is_broker),
            now_ms=context.services.clock.wall_ms(),
        )
        if session is None:
            return NO_SESSION
        session.fetch_time = self._fetch_time
        session.acls = None if self._access is None else self._access.acls
        for fetched in self._looked_at.values():
            fetched.is_included()
            kept = session.partitions[fetched.key]
            kept.high_watermark = fetched.high_watermark
            kept.log_start_offset = fetched.log_start_offset
            session.watch.follow(kept, fetched.partition)
        return session.id

    def _by_topic(
        self, answered: Iterable[FetchedPartition]
    ) -> list[FetchResponse.FetchableTopicResponse]:
        topics: list[FetchResponse.FetchableTopicResponse] = []
        last: object = None
        for fetched in answered:
            topic = fetched.key[0]
            if topic == last:
                topics[-1].partitions.append(fetched.answer)
                continue
            last = topic
            made = FetchResponse.FetchableTopicResponse(partitions=[fetched.answer])
            if self._by_id:
                made.topic_id = topic  # pyright: ignore[reportAttributeAccessIssue]
            else:
                made.topic = topic  # pyright: ignore[reportAttributeAccessIssue]
            topics.append(made)
        return topics
