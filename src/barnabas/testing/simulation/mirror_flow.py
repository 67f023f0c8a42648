"""A flow in the simulation: it copies the batches of a source into a mirror topic.

The source is a list: no cluster is simulated for it. Its log has gaps, as compaction leaves them,
and transactions, some of which are aborted. Now and then its retention removes what the target does
not have yet, and the target's log starts again. MR: the target's log is a part of the source's
batches, at the same offsets, up to the leader epoch of the promotion; a batch is committed when it
is acknowledged.
"""

import random
from bisect import bisect_left
from typing import Final

from barnabas.cluster.metadata.image import MetadataImage, TopicImage
from barnabas.config.mirror_topics import PROMOTED, Promotion
from barnabas.protocol.batches.batch_header import read_header
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages_base import Message
from barnabas.testing.batches import batch, marker
from barnabas.testing.mirrored import as_sent, placed, without_epochs
from barnabas.testing.simulation.data_clients import CLIENT_ID_BASE, produce_request, produced
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.scripted_client import (
    Script,
    ScriptedClient,
    Send,
    Sleep,
    leader_in,
    raise_error,
)
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.sim_partition_log import SimPartitionLog
from barnabas.testing.simulation.topic_creation import NewTopic, TopicCreation

MIRROR_TOPIC: Final = "mirror"
_CREATOR_ID: Final = 31_000
_CLIENT_NUMBER: Final = 36_000
_FLOW: Final = f"client-{CLIENT_ID_BASE + _CLIENT_NUMBER}"
"""The name of the flow is its client id."""
_SOURCE_BATCHES: Final = 600
_LATEST: Final = -1
MIRROR_PLACE: Final = (MIRROR_TOPIC, 0)
_DELETE_TIMEOUT_MS: Final = 5_000
_NEVER: Final = 1 << 31


class MirrorFlow(ScriptedClient):
    """Sends a few batches at a time, from the target's high watermark on.

    Now and then it sends those after the next one, like a request that overtakes another: the
    leader must refuse it.
    """

    def __init__(
        self, cluster: SimCluster, options: SeedOptions, invariants: PartitionInvariants
    ) -> None:
        super().__init__(cluster, _CLIENT_NUMBER)
        self._options = options
        self._invariants = invariants
        self._source = _source(cluster.world.stream("mirror source"))
        self._starts = [read_header(each).base_offset for each in self._source]
        self.acknowledged_end = 0
        self.restarts = 0
        self._next_restart_ms = options.mirror_restart_ms
        self._restart_offset = 0
        if options.mirror_promotion_ms:
            cluster.requests.expect(self.process, ErrorCode.POLICY_VIOLATION)
        self._restarted_to = 0
        self.refused_holes = 0

    def start(self) -> None:
        """Create the topic and begin to copy."""
        options = self._options
        topic = NewTopic(
            name=MIRROR_TOPIC,
            partitions=1,
            replication_factor=options.replication_factor,
            min_insync_replicas=options.min_insync_replicas,
            mirror_source=_FLOW,
        )
        TopicCreation(self.cluster, _CREATOR_ID, [topic], lambda: None)
        super().start()

    def script(self) -> Script:
        """Copy until the end of the simulation or the source."""
        while not self.is_stopped:
            yield Sleep(self.random.randrange(2 * self._options.mirror_pause_ms))
            try:
                if self._is_restart_due():
                    yield from self._restart()
                yield from self._copy()
            except KafkaError:  # the next leader, and the offset that it has
                continue

    def _is_restart_due(self) -> bool:
        pause_ms = self._options.mirror_restart_ms
        if not pause_ms or self.process.world.now_ms < self._next_restart_ms:
            return False
        self._next_restart_ms = self.process.world.now_ms + self.random.randrange(2 * pause_ms)
        return True

    def _restart(self) -> Script:
        """Have the log start at a batch that it does not have yet."""
        image = self.known_image()
        leader = leader_in(image, *MIRROR_PLACE)
        position = yield from self._position(leader)
        first = bisect_left(self._starts, position) + self.random.randrange(1, 5)
        if first >= len(self._starts):
            return
        offset = self._starts[first]
        self._restart_offset = max(self._restart_offset, offset)
        topic_id = image.topics_by_name[MIRROR_TOPIC].id
        self._invariants.deletion_requested(topic_id, 0, offset)
        request = DeleteRecordsRequest
        partition = request.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = request.DeleteRecordsTopic(name=MIRROR_TOPIC, partitions=[partition])
        response = yield Send(leader, request(topics=[topic], timeout_ms=_DELETE_TIMEOUT_MS))
        raise_error(response.topics[0].partitions[0].error_code)
        self.restarts += 1
        self._restarted_to = max(self._restarted_to, offset)
        self._check_starts(offset)

    def _check_starts(self, offset: int) -> None:
        """Check that all in-sync replicas have deleted the records, as the leader answers."""
        partition = self.cluster.newest_image().partition(*MIRROR_PLACE)
        for member in () if partition is None else partition.isr:
            disk = self._invariants.disks[member]
            log = disk.get(*MIRROR_PLACE)
            start = offset if log is None or MIRROR_PLACE in disk.lost else log.log_start_offset
            what = f"{log!r} starts at {start}, and a deletion up to {offset} was acknowledged"
            require(start >= offset, "MR", what)

    def _position(self, leader: int) -> Script:
        """Return the target's high watermark."""
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=_LATEST)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=MIRROR_TOPIC, partitions=[asked])
        response = yield Send(leader, ListOffsetsRequest(replica_id=-1, topics=[topic]))
        found = response.topics[0].partitions[0]
        raise_error(found.error_code)
        return found.offset

    def _copy(self) -> Script:
        image = self.known_image()
        leader = leader_in(image, *MIRROR_PLACE)
        position = yield from self._position(leader)
        first = bisect_left(self._starts, position)
        if self.random.random() < 0.2 and first < len(self._source):
            position = read_header(self._source[first]).next_offset
            first += 1
        sent = self._source[first : first + self.random.randrange(1, 5)]
        if not sent:
            return
        yield from self._send_batches(leader, image.topics_by_name[MIRROR_TOPIC], sent, position)

    def _send_batches(
        self, leader: int, topic: TopicImage, sent: list[bytes], position: int
    ) -> Script:
        request: Message = produce_request(topic, 0, bytes(as_sent(sent, position)))
        response = yield Send(leader, request)
        code = produced(response).error_code
        self.refused_holes += code == ErrorCode.OFFSET_OUT_OF_RANGE
        raise_error(code)
        end = read_header(sent[-1]).next_offset
        committed = self._invariants.committed_end(topic.id, 0)
        # A deletion that has arrived late removes batches that wait to be committed.
        committed = max(committed, self._restart_offset)
        is_committed = committed >= end or self._invariants.has_losses(topic.id, 0)
        require(is_committed, "MR", f"{end} was acknowledged, {committed} is committed")
        self.acknowledged_end = max(self.acknowledged_end, end)

    def check_end(self) -> None:
        """Check MR, and that the replicas are equal."""
        image = self.cluster.newest_image()
        topic = image.topics_by_name.get(MIRROR_TOPIC)
        partition = image.partition(*MIRROR_PLACE)
        if topic is None or partition is None:
            require(False, "LIVENESS", "the mirror topic does not exist")
            return
        self._invariants.check_end({MIRROR_PLACE: partition.leader})
        log = self._invariants.disks[partition.leader].get(*MIRROR_PLACE)
        mirrored = mirrored_batches(log, image)
        first = 0 if log is None or not mirrored else bisect_left(self._starts, first_offset(log))
        is_part = without_epochs(mirrored) == self._source[first : first + len(mirrored)]
        require(is_part, "MR", f"{log!r} is not a part of its source")
        if self._invariants.has_losses(topic.id, 0):
            return
        start, end = (0, 0) if log is None else (log.log_start_offset, log.high_watermark)
        wanted = self._restarted_to
        require(start >= wanted, "MR", f"{log!r} starts at {start}, {wanted} was acknowledged")
        wanted = self.acknowledged_end
        require(end >= wanted, "MR", f"{log!r} ends at {end}, {wanted} was acknowledged")


def first_offset(log: SimPartitionLog) -> int:
    """Return the offset of the first batch of a log."""
    return log.batches[0][0].base_offset


def mirrored_batches(log: SimPartitionLog | None, image: MetadataImage) -> list[bytes]:
    """Return the batches that a flow has written: those before the leader epoch of a promotion."""
    if log is None:
        return []
    text = image.topic_config(MIRROR_TOPIC).get(PROMOTED, "")
    end_epoch = Promotion.parse(text).epoch_of(0) if text else _NEVER
    epochs = [header.partition_leader_epoch for header, _ in log.batches]
    require(epochs == sorted(epochs), "MR", f"{log!r} has leader epochs in another order: {epochs}")
    return [data for header, data in log.batches if header.partition_leader_epoch < end_epoch]


def _source(chance: random.Random) -> list[bytes]:
    """Return the batches of a source's log."""
    batches: list[bytes] = []
    offset = 0
    is_open: set[int] = set()
    for number in range(_SOURCE_BATCHES):
        offset += chance.choice((0, 0, 0, 1, 7))
        producer_id = chance.randrange(3)
        if producer_id in is_open and chance.random() < 0.3:
            data = marker(producer_id, commit=chance.random() < 0.5)
            is_open.discard(producer_id)
        else:
            values = [b"%d" % number] * chance.randrange(1, 4)
            data = batch(*values, producer=(producer_id, 0, number), transactional=producer_id > 0)
            is_open |= {producer_id} - {0}
        batches.append(placed(data, offset))
        offset = read_header(batches[-1]).next_offset
    return batches
