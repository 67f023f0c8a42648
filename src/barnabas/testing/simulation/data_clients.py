"""Producers and consumers in the simulation, with the outcomes that they have seen."""

from typing import Final

import attrs

from barnabas.cluster.metadata.image import MetadataImage, TopicImage
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import batch
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

CLIENT_ID_BASE = 20_000
_REQUEST_TIMEOUT_MS = 5_000
_RETRY_MS = 100
_EARLIEST = -2
_ACKS_ALL: Final = -1


@attrs.frozen(slots=True)
class Acknowledged:
    """A batch that a broker has acknowledged with acks=all; its leader had this epoch."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    batch: bytes


def produce_request(
    topic: TopicImage,
    partition: int,
    data: bytes,
    *,
    acks: int = _ACKS_ALL,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return a request to append one batch; it has the topic's name or id by its version."""
    written = ProduceRequest.PartitionProduceData(index=partition, records=data)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=_REQUEST_TIMEOUT_MS,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic.name, topic_id=topic.id, partition_data=[written]
            )
        ],
    )


def produced(response: ProduceResponse) -> ProduceResponse.PartitionProduceResponse:
    """Return the answer for the only partition."""
    return response.responses[0].partition_responses[0]


class SimClient:
    """A client that reads the metadata of a random running broker, and so may have an old image."""

    def __init__(self, cluster: SimCluster, number: int) -> None:
        self.cluster = cluster
        self.process = Process(cluster.world, CLIENT_ID_BASE + number)
        self.process.start()
        self.is_stopped = False

    def start(self) -> None:
        """Begin to send requests."""
        raise NotImplementedError

    def image(self) -> MetadataImage | None:
        """Return the metadata of a random running broker."""
        images = [
            node.image
            for node in self.cluster.nodes.values()
            if node.process.is_running and not node.process.is_paused and node.image is not None
        ]
        return self.process.world.random.choice(images) if images else None


class SimProducer(SimClient):
    """A producer with acks=all and one batch in flight; every value is written at most once."""

    def __init__(
        self,
        cluster: SimCluster,
        number: int,
        partitions: list[tuple[str, int]],
        invariants: PartitionInvariants,
        pause_ms: int,
    ) -> None:
        super().__init__(cluster, number)
        self._invariants = invariants
        self.acknowledged: list[Acknowledged] = []
        self.failures: dict[str, int] = {}
        self._number = number
        self._partitions = partitions
        self._pause_ms = pause_ms
        self._count = 0

    def start(self) -> None:
        """Begin to produce."""
        self.process.after_ms(self.process.world.random.randrange(1_000), self._next)

    def _next(self) -> None:
        if self.is_stopped:
            return
        name, partition = self.process.world.random.choice(self._partitions)
        image = self.image()
        topic = None if image is None else image.topics_by_name.get(name)
        found = None if topic is None else topic.partitions.get(partition)
        if topic is None or found is None or found.leader < 0:
            self.process.after_ms(_RETRY_MS, self._next)
            return
        self._count += 1
        value = f"{self._number}-{self._count}".encode()
        data = bytes(batch(*[value] * self.process.world.random.randrange(1, 4)))
        topic_id = topic.id

        def answered(response: ProduceResponse) -> None:
            outcome = produced(response)
            if outcome.error_code:
                self._failed(error_code(outcome.error_code).name)
                return
            offset = outcome.base_offset
            epoch = self._invariants.epoch_of(topic_id, partition, offset, data)
            self.acknowledged.append(Acknowledged(name, partition, offset, epoch, data))
            self.process.after_ms(self._pause_ms, self._next)

        def failed(failure: Failure) -> None:
            self._failed(failure.value)

        self.cluster.requests.ask(
            self.process,
            found.leader,
            "broker",
            produce_request(topic, partition, data),
            answered,
            failed,
            timeout_ms=2 * _REQUEST_TIMEOUT_MS,
        )

    def _failed(self, reason: str) -> None:
        self.failures[reason] = self.failures.get(reason, 0) + 1
        self.process.after_ms(_RETRY_MS, self._next)


class SimConsumer(SimClient):
    """A consumer of one partition, from its start; it checks P2 with what it reads.

    C1: no leader answers an error that the client takes as fatal, and none that its offset is out
    of range, unless records were lost or deleted.

    One with a rack reads from the replica that the leader prefers for it (KIP-392), until that one
    refuses. With `has_deletions` it asks for the log start when its offset is out of range.
    """

    def __init__(
        self,
        cluster: SimCluster,
        number: int,
        place: tuple[str, int],
        invariants: PartitionInvariants,
        rack: str = "",
        *,
        has_deletions: bool = False,
    ) -> None:
        super().__init__(cluster, number)
        self.place = place
        self._topic, self._partition = place
        self._invariants = invariants
        self._rack = rack
        self._preferred = -1
        self._has_deletions = has_deletions
        self._is_out_of_range = False
        self._latest_epoch = -1
        self._is_latest_epoch = True
        self.offset = 0
        self.read_from_followers = 0

    def start(self) -> None:
        """Begin to consume."""
        self.process.after_ms(self.process.world.random.randrange(1_000), self._next)

    def _next(self) -> None:
        image = self.image()
        topic = None if image is None else image.topics_by_name.get(self._topic)
        found = None if topic is None else topic.partitions.get(self._partition)
        if topic is None or found is None or found.leader < 0:
            self.process.after_ms(_RETRY_MS, self._next)
            return
        self._is_latest_epoch = found.leader_epoch >= self._latest_epoch
        self._latest_epoch = max(found.leader_epoch, self._latest_epoch)
        if self._is_out_of_range and self._has_deletions:
            self._ask_for_the_start(found.leader)
            return
        wanted = FetchRequest.FetchPartition(
            partition=self._partition,
            fetch_offset=self.offset,
            partition_max_bytes=10_000,
            current_leader_epoch=found.leader_epoch,
        )
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=100_000,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=topic.id, partitions=[wanted])],
            rack_id=self._rack,
        )
        to = found.leader if self._preferred < 0 else self._preferred

        def answered(response: FetchResponse) -> None:
            for answers in response.responses:
                for answer in answers.partitions:
                    self._read(answers, answer)
            self.process.after_ms(_RETRY_MS, self._next)

        def failed(_: Failure) -> None:
            self._preferred = -1
            self.process.after_ms(_RETRY_MS, self._next)

        self.cluster.requests.ask(
            self.process, to, "broker", request, answered, failed, timeout_ms=5_000
        )

    def _ask_for_the_start(self, leader: int) -> None:
        request = ListOffsetsRequest
        wanted = request.ListOffsetsPartition(partition_index=self._partition, timestamp=_EARLIEST)
        topic = request.ListOffsetsTopic(name=self._topic, partitions=[wanted])

        def answered(response: ListOffsetsResponse) -> None:
            answer = response.topics[0].partitions[0]
            if not answer.error_code:
                self.offset, self._is_out_of_range = answer.offset, False
            self.process.after_ms(_RETRY_MS, self._next)

        def failed(_: Failure) -> None:
            self.process.after_ms(_RETRY_MS, self._next)

        self.cluster.requests.ask(
            self.process,
            leader,
            "broker",
            request(replica_id=-1, topics=[topic]),
            answered,
            failed,
            timeout_ms=5_000,
        )

    def _read(
        self, answers: FetchResponse.FetchableTopicResponse, answer: FetchResponse.PartitionData
    ) -> None:
        if answer.error_code:
            self._check(answers.topic_id, error_code(answer.error_code))
            if self._preferred < 0 and answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                # auto.offset.reset=earliest, after an unclean election or a deletion
                self.offset, self._is_out_of_range = 0, True
            self._preferred = -1
        elif self._preferred < 0:
            self._preferred = answer.preferred_read_replica
        records = bytes(answer.records or b"")
        for position, header in iter_batches(records):
            data = records[position : position + header.size]
            is_committed = self._invariants.is_committed(
                answers.topic_id, answer.partition_index, header.base_offset, data
            )
            require(is_committed, "P2", f"{self._topic}: a consumer read at {header.base_offset}")
            self.offset = header.next_offset
            self.read_from_followers += self._preferred >= 0

    def _check(self, topic_id: Uuid, code: ErrorCode) -> None:
        """Check C1 for an error; a follower, or a leader of an earlier epoch, may lack records."""
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            is_asked = self._preferred < 0 and self._is_latest_epoch
            has_losses = self._invariants.has_losses(topic_id, self._partition)
            is_explained = self._has_deletions or has_losses or not is_asked
        else:
            is_explained = code.retriable
        what = f"{self._topic}-{self._partition} answers {code.name} to a fetch at {self.offset}"
        require(is_explained, "C1", what)
