"""Brokers with one partition in memory: leaders as Kafka's, followers on `FetcherCore`."""

from typing import Final

from barnabas.cluster.replication import follower_log
from barnabas.cluster.replication.fetch_settings import FetchSettings
from barnabas.cluster.replication.fetcher_core import FetcherCore, Request
from barnabas.cluster.replication.replication_quota import ReplicationQuota
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import NOW_MS, batch
from barnabas.testing.sim_log import SimLog

PartitionData = FetchResponse.PartitionData
SETTINGS: Final = FetchSettings(backoff_ms=1000)
TOPIC_ID: Final = Uuid(b"\x07" * 16)
LATEST: Final = -1


class SimReplica:
    """One broker's replica: a `FollowedReplica`, and a leader's answers."""

    def __init__(self, broker: int = 1, partition: int = 0) -> None:
        self.broker = broker
        self.topic = "t"
        self.topic_id = TOPIC_ID
        self.partition = partition
        self.log = SimLog()
        self.leader_epoch = 0
        self.is_leader = False
        self.isr: set[int] = set()
        self.ends: dict[int, int] = {}
        self.truncations: list[int] = []

    # As a follower

    @property
    def is_in_isr(self) -> bool:
        return self.broker in self.isr

    def follower_append(self, batches: follower_log.Batches, leader_epoch: int, now_ms: int) -> int:
        if self.is_leader or leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, "other epoch")
        follower_log.append(self.log, batches, leader_epoch=leader_epoch, now_ms=now_ms)
        return self.log.log_end_offset

    def truncate_to(self, offset: int) -> None:
        self.truncations.append(offset)
        self.log.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        follower_log.follow_high_watermark(self.log, leader_high_watermark)

    def follow_log_start(self, leader_log_start: int) -> None:
        follower_log.follow_log_start(self.log, leader_log_start)

    # As the leader

    def lead(self, epoch: int, isr: set[int]) -> None:
        self.leader_epoch, self.is_leader = epoch, True
        self.isr, self.ends = set(isr), {}
        self.log.start_leader_epoch(epoch, self.log.log_end_offset)
        self.advance()

    def produce(self, *values: bytes) -> None:
        self.log.append_as_leader(batch(*values), leader_epoch=self.leader_epoch, now_ms=NOW_MS)
        self.advance()

    def advance(self) -> None:
        ends = [self.ends.get(each, -1) for each in self.isr if each != self.broker]
        committed = min([self.log.log_end_offset, *ends])
        if committed > self.log.high_watermark:
            self.log.advance_high_watermark(committed)

    def _epoch_error(self, epoch: int) -> ErrorCode:
        if epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def answer(
        self, follower: int, asked: FetchRequest.FetchPartition, batches: int = 2
    ) -> PartitionData:
        """Return the answer to one partition's part of a Fetch."""
        log = self.log
        made = PartitionData(
            partition_index=asked.partition,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            records=b"",
        )
        made.error_code = self._epoch_error(asked.current_leader_epoch)
        if made.error_code:
            return made
        if asked.last_fetched_epoch >= 0:
            epoch, end = self._end_of(asked.last_fetched_epoch)
            if epoch < 0:
                made.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                return made
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                made.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
                return made
        if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
            made.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return made
        self.ends[follower] = asked.fetch_offset
        self.advance()
        made.high_watermark = log.high_watermark
        wanted = [data for header, data in log.batches if header.last_offset >= asked.fetch_offset]
        made.records = b"".join(wanted[:batches])
        return made

    def _end_of(self, epoch: int) -> tuple[int, int]:
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)

    def offset(
        self, asked: ListOffsetsRequest.ListOffsetsPartition
    ) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
        """Return the answer to one partition's part of a ListOffsets."""
        is_end = asked.timestamp == LATEST
        return ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            error_code=self._epoch_error(asked.current_leader_epoch),
            offset=self.log.log_end_offset if is_end else self.log.log_start_offset,
        )


def new_core(broker: int = 1, quota: ReplicationQuota | None = None) -> FetcherCore:
    return FetcherCore(broker, SETTINGS, quota or ReplicationQuota())


class SimLeader:
    """The leader of some partitions, with fetch sessions as in KIP-227."""

    def __init__(self, *replicas: SimReplica) -> None:
        self.replicas = {each.partition: each for each in replicas}
        self.session: dict[int, FetchRequest.FetchPartition] = {}
        self.requests: list[Request] = []
        self.id = 77

    def respond(self, request: Request, follower: int = 1) -> FetchResponse | ListOffsetsResponse:
        """Return the response to a follower's request."""
        self.requests.append(request)
        if isinstance(request, ListOffsetsRequest):
            found = [
                self.replicas[each.partition_index].offset(each) for each in offsets_of(request)
            ]
            topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=found)
            return ListOffsetsResponse(topics=[topic])
        if request.session_epoch == 0:
            self.session.clear()
            self.id += 1
        elif request.session_id != self.id:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        for each in partitions_of(request):
            self.session[each.partition] = each
        for number in forgotten_of(request):
            del self.session[number]
        if not self.session:
            return fetch_response(session_id=0)
        answers = [self.replicas[n].answer(follower, each) for n, each in self.session.items()]
        return fetch_response(*answers, session_id=self.id)


def partitions_of(request: Request | None) -> list[FetchRequest.FetchPartition]:
    assert isinstance(request, FetchRequest)
    return [each for topic in request.topics for each in topic.partitions]


def forgotten_of(request: Request | None) -> list[int]:
    assert isinstance(request, FetchRequest)
    return [each for topic in request.forgotten_topics_data for each in topic.partitions]


def offsets_of(request: Request | None) -> list[ListOffsetsRequest.ListOffsetsPartition]:
    assert isinstance(request, ListOffsetsRequest)
    return [each for topic in request.topics for each in topic.partitions]


def fetch_response(*answers: PartitionData, session_id: int = 0) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(answers))
    return FetchResponse(session_id=session_id, responses=[topic])


def next_request(core: FetcherCore, now_ms: int = 0, version: int = 18) -> Request | None:
    return core.next_request(now_ms, version=version, broker_epoch=42)


def exchange(core: FetcherCore, leader: SimLeader, now_ms: int = 0) -> Request | None:
    """Run one request and its response; return the request."""
    request = next_request(core, now_ms)
    if request is not None:
        core.on_response(leader.respond(request), now_ms, wall_ms=NOW_MS)
    return request
