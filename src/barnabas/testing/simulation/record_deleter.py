"""A client of the simulation that deletes the first records of partitions (DeleteRecords)."""

from typing import Final

from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.scripted_client import (
    Script,
    ScriptedClient,
    Send,
    Sleep,
    leader_in,
)
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster

_CLIENT_NUMBER: Final = 35_000
_TIMEOUT_MS: Final = 5_000
_HIGH_WATERMARK: Final = -1


class RecordDeleter(ScriptedClient):
    """Deletes up to the high watermark, or up to any committed offset, also inside a batch."""

    def __init__(
        self,
        cluster: SimCluster,
        topic: str,
        options: SeedOptions,
        invariants: PartitionInvariants,
    ) -> None:
        super().__init__(cluster, _CLIENT_NUMBER)
        self.deleted = 0
        self._topic = topic
        self._options = options
        self._invariants = invariants

    def script(self) -> Script:
        """Delete records of one partition after the other."""
        while not self.is_stopped:
            yield Sleep(self.random.randrange(2 * self._options.deletion_pause_ms))
            try:
                yield from self._delete(self.random.randrange(self._options.partitions))
            except KafkaError:  # the next leader, or the next offset
                continue

    def _delete(self, number: int) -> Script:
        image = self.known_image()
        leader = leader_in(image, self._topic, number)
        offset = self._offset(number)
        topic_id = image.topics_by_name[self._topic].id
        self._invariants.deletion_requested(topic_id, number, offset)
        request = DeleteRecordsRequest
        partition = request.DeleteRecordsPartition(partition_index=number, offset=offset)
        topic = request.DeleteRecordsTopic(name=self._topic, partitions=[partition])
        response = yield Send(leader, request(topics=[topic], timeout_ms=_TIMEOUT_MS))
        self.deleted += not response.topics[0].partitions[0].error_code

    def _offset(self, number: int) -> int:
        topic = self.cluster.newest_image().topics_by_name.get(self._topic)
        if topic is None or self.random.random() < 0.2:
            return _HIGH_WATERMARK
        return self.random.randint(0, self._invariants.committed_end(topic.id, number))
