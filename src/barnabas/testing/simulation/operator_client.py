"""An operator in the simulation: reassigns partitions, holds elections, changes min.isr."""

from collections.abc import Callable
from typing import Any, Final

from barnabas.cluster.controller.leader_elections import PREFERRED, UNCLEAN
from barnabas.cluster.metadata.image import RESOURCE_TOPIC, MetadataImage, PartitionImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.testing.simulation.controller_client import ControllerClient, final_images
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

_CLIENT_ID: Final = 32_000
_SET: Final = 0
_RECOVER_AFTER_MS, _RECOVER_RETRY_MS = 14_000, 1_000
_MIN_ISR: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"


class OperatorClient:
    """One operation after the other, on the partitions of one topic."""

    def __init__(
        self,
        cluster: SimCluster,
        topic: str,
        options: SeedOptions,
        invariants: PartitionInvariants,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._invariants = invariants
        self._process = Process(cluster.world, _CLIENT_ID)
        self._process.start()
        self._random = cluster.world.stream("operator")
        self._controller = ControllerClient(cluster, self._process, self._random)
        self._configs: dict[str, str] = {}
        self._uncertain: dict[str, set[str]] = {}
        """Values with an unknown outcome: a broker may still forward them."""
        self.is_stopped = False
        self.is_idle = True

    def start(self) -> None:
        """Begin to operate."""
        self._process.after_ms(self._pause_ms(), self._next)

    def _pause_ms(self) -> int:
        return self._random.randrange(2 * self._options.operator_pause_ms)

    def _next(self) -> None:
        if self.is_stopped:
            return
        operations: list[Callable[[], None]] = [self._elect, self._set_min_isr]
        if self._options.brokers > 1:
            operations += [self._reassign, self._reassign, self._cancel]
        if self._options.is_unclean:
            operations += [self._elect_uncleanly, self._set_unclean]
        self.is_idle = False
        self._random.choice(operations)()

    def _done(self, response: Any) -> None:
        self._cluster.world.note("operator", "unknown" if response is None else response)
        self.is_idle = True
        self._process.after_ms(self._pause_ms(), self._next)

    # Operations

    def _reassign(self) -> None:
        brokers, factor = self._options.broker_ids, self._options.replication_factor
        if self._random.random() < 0.2:
            factor = self._random.randrange(1, len(brokers) + 1)
        self._alter(self._random.sample(brokers, k=factor))

    def _cancel(self) -> None:
        self._alter(None)

    def _alter(self, replicas: list[int] | None) -> None:
        request = AlterPartitionReassignmentsRequest
        partition = request.ReassignablePartition(
            partition_index=self._partition(), replicas=replicas
        )
        topic = request.ReassignableTopic(name=self._topic, partitions=[partition])
        self._controller.submit(request(topics=[topic]), self._done)

    def _elect(self) -> None:
        self._hold_election(PREFERRED)

    def _elect_uncleanly(self) -> None:
        self._invariants.history.allow_unclean(self._topic)
        self._hold_election(UNCLEAN)

    def _hold_election(self, kind: int) -> None:
        request = ElectLeadersRequest
        wanted = request.TopicPartitions(topic=self._topic, partitions=[self._partition()])
        self._controller.submit(request(election_type=kind, topic_partitions=[wanted]), self._done)

    def _set_min_isr(self) -> None:
        self._set(_MIN_ISR, str(self._random.randrange(1, self._options.replication_factor + 1)))

    def _set_unclean(self) -> None:
        self._invariants.history.allow_unclean(self._topic)
        self._set(_UNCLEAN, self._random.choice(("true", "false")))

    def _set(self, name: str, value: str) -> None:
        request = IncrementalAlterConfigsRequest
        resource = request.AlterConfigsResource(
            resource_type=RESOURCE_TOPIC,
            resource_name=self._topic,
            configs=[request.AlterableConfig(name=name, config_operation=_SET, value=value)],
        )
        self._configs.pop(name, None)

        def done(response: Any) -> None:
            if response is None:
                self._uncertain.setdefault(name, set()).add(value)
            elif response.responses[0].error_code == ErrorCode.NONE:
                self._configs[name] = value
            self._done(response)

        self._controller.submit(request(resources=[resource]), done)

    def _partition(self) -> int:
        return self._random.randrange(self._options.partitions)

    def stop(self) -> None:
        """Begin no further operation; later recover partitions that need an operator."""
        self.is_stopped = True
        self._process.after_ms(_RECOVER_AFTER_MS, self._recover)

    def _recover(self) -> None:
        """Elect uncleanly where no replica is known to have all records.

        A change of min.insync.replicas clears the eligible leader replicas, as in Kafka. If no
        replica was in sync at that moment, none is elected until an operator asks for it.
        """
        topic = self._cluster.newest_image().topics_by_name.get(self._topic)
        if topic is None or not any(is_lost(each) for each in topic.partitions.values()):
            return
        self._invariants.history.allow_unclean(self._topic)
        request = ElectLeadersRequest
        lost = [number for number, each in topic.partitions.items() if is_lost(each)]
        wanted = request.TopicPartitions(topic=self._topic, partitions=lost)

        def done(_: Any) -> None:
            self._process.after_ms(_RECOVER_RETRY_MS, self._recover)

        self._controller.submit(request(election_type=UNCLEAN, topic_partitions=[wanted]), done)

    def check_end(self) -> None:
        """After a rest: acknowledged settings are in the images, and reassignments have ended."""
        require(self.is_idle, "LIVENESS", "an operation has no outcome")
        for image in final_images(self._cluster):
            self._check(image)

    def _check(self, image: MetadataImage) -> None:
        config = image.topic_config(self._topic)
        for name, value in self._configs.items():
            is_kept = config.get(name) in {value, *self._uncertain.get(name, ())}
            require(is_kept, "R3", f"{name} is {config.get(name)}, not {value}")
        topic = image.topics_by_name.get(self._topic)
        if topic is None:
            return
        for number, partition in topic.partitions.items():
            moving = partition.adding_replicas + partition.removing_replicas
            require(
                not moving, "LIVENESS", f"the reassignment of {self._topic}-{number} has not ended"
            )


def is_lost(partition: PartitionImage) -> bool:
    """True when the controller may elect no replica by itself."""
    return not (partition.isr or partition.elr or partition.last_known_elr)
