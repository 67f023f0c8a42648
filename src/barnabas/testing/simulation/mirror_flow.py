"""A flow in the simulation: it copies the batches of a source into a mirror topic.

The source is a list: no cluster is simulated for it. Its log has gaps, as compaction leaves them,
and transactions, some of which are aborted. MR: the target's log is a prefix of the source's
batches, at the same offsets, and a batch is committed when it is acknowledged.
"""

import random
from bisect import bisect_left
from typing import Final

from barnabas.cluster.metadata.image import TopicImage
from barnabas.protocol.batches.batch_header import read_header
from barnabas.protocol.errors import ErrorCode, KafkaError
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
from barnabas.testing.simulation.topic_creation import NewTopic, TopicCreation

MIRROR_TOPIC: Final = "mirror"
_CREATOR_ID: Final = 31_000
_CLIENT_NUMBER: Final = 36_000
_FLOW: Final = f"client-{CLIENT_ID_BASE + _CLIENT_NUMBER}"
"""The name of the flow is its client id."""
_SOURCE_BATCHES: Final = 600
_LATEST: Final = -1
_PLACE: Final = (MIRROR_TOPIC, 0)


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
                yield from self._copy()
            except KafkaError:  # the next leader, and the offset that it has
                continue

    def _copy(self) -> Script:
        image = self.known_image()
        leader = leader_in(image, *_PLACE)
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=_LATEST)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=MIRROR_TOPIC, partitions=[asked])
        response = yield Send(leader, ListOffsetsRequest(replica_id=-1, topics=[topic]))
        found = response.topics[0].partitions[0]
        raise_error(found.error_code)
        position = found.offset
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
        is_committed = committed >= end or self._invariants.has_losses(topic.id, 0)
        require(is_committed, "MR", f"{end} was acknowledged, {committed} is committed")
        self.acknowledged_end = max(self.acknowledged_end, end)

    def check_end(self) -> None:
        """Check MR, and that the replicas are equal."""
        image = self.cluster.newest_image()
        topic = image.topics_by_name.get(MIRROR_TOPIC)
        partition = image.partition(*_PLACE)
        if topic is None or partition is None:
            require(False, "LIVENESS", "the mirror topic does not exist")
            return
        self._invariants.check_end({_PLACE: partition.leader})
        log = self._invariants.disks[partition.leader].get(*_PLACE)
        batches = [] if log is None else [data for _, data in log.batches]
        is_prefix = without_epochs(batches) == self._source[: len(batches)]
        require(is_prefix, "MR", f"{log!r} is not a prefix of its source")
        end = 0 if log is None else log.high_watermark
        is_there = end >= self.acknowledged_end or self._invariants.has_losses(topic.id, 0)
        what = f"{log!r} ends at {end}, {self.acknowledged_end} was acknowledged"
        require(is_there, "MR", what)


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
