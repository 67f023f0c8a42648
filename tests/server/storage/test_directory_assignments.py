"""The reports of the directories of many replicas."""

from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from barnabas.cluster.metadata.feature_levels import SUPPORTED
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from barnabas.protocol.types import ZERO_UUID, Uuid
from barnabas.server.storage.directory_assignments import DirectoryAssignments

NODE_ID = 1
DIRECTORY = Uuid.random()
REPLICAS = 5_000


class Cluster:
    """A topic whose partitions have no directory, and a channel that notes the reports."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.refused: set[int] = set()  # the numbers of the requests that are refused
        self.topic = SimpleNamespace(
            id=Uuid.random(), name="t", partitions={n: self._partition() for n in range(REPLICAS)}
        )
        self.image = SimpleNamespace(
            features={name: latest for name, (_, latest) in SUPPORTED.items()},
            topics_by_id={self.topic.id: self.topic},
        )
        volume = SimpleNamespace(failure=None, directory_id=DIRECTORY)
        self.assignments = DirectoryAssignments(
            SimpleNamespace(  # type: ignore[arg-type]
                volumes=[volume],
                volumes_of_new_logs=lambda: [volume],
                known=lambda name, number: None,
            ),
            SimpleNamespace(identity=SimpleNamespace(id=NODE_ID, epoch=1)),  # type: ignore[arg-type]
            SimpleNamespace(  # type: ignore[arg-type]
                image=self.image,
                publisher=SimpleNamespace(subscribe=lambda name, observer: None),
            ),
            self,  # type: ignore[arg-type]
        )

    def _partition(self, directory: Uuid = ZERO_UUID) -> Any:
        return SimpleNamespace(replicas=(NODE_ID,), directory=lambda node_id: directory)

    def assign(self, numbers: range) -> None:
        """Have the metadata state the directory of these partitions."""
        self.topic.partitions.update({number: self._partition(DIRECTORY) for number in numbers})

    async def send(self, request: Any, response_type: Any) -> Any:
        numbers = [
            partition.partition_index
            for directory in request.directories
            for topic in directory.topics
            for partition in topic.partitions
        ]
        self.sent.append(numbers)
        if len(self.sent) in self.refused:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        await trio.lowlevel.checkpoint()
        return AssignReplicasToDirsResponse()

    def run(self, seconds: float) -> None:
        async def main() -> None:
            with trio.move_on_after(seconds):
                await self.assignments.run()

        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_report_of_many_replicas_is_split_into_requests() -> None:
    cluster = Cluster()
    cluster.run(5)
    assert [len(numbers) for numbers in cluster.sent] == [2250, 2250, 500]
    assert sorted(number for numbers in cluster.sent for number in numbers) == [*range(REPLICAS)]


def test_report_after_a_refusal_leaves_out_what_the_metadata_state() -> None:
    cluster = Cluster()
    cluster.refused = {2}
    cluster.run(0.5)
    assert [len(numbers) for numbers in cluster.sent] == [2250, 2250]
    cluster.assign(range(4900))
    cluster.sent.clear()
    cluster.refused.clear()
    cluster.run(5)
    assert [len(numbers) for numbers in cluster.sent] == [100]
