"""An operator of the simulation that throttles the replication of a topic, and ends the throttle.

As Kafka's tools do for a reassignment: the rates are set for each broker, the replicas for the
topic. The throttle has ended before the cluster comes to rest.
"""

from typing import Any, Final

from barnabas.cluster.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.testing.simulation.controller_client import ControllerClient
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

_CLIENT_ID: Final = 36_000
_SET, _DELETE = 0, 1
_LONGEST_MS: Final = 8_000
_RETRY_MS: Final = 200
_SAMPLE_US: Final = 20_000
_SIDES: Final = ("leader", "follower")

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource


class ThrottleOperator:
    """Sets the throttle, removes it after a time, and begins again."""

    def __init__(self, cluster: SimCluster, topic: str, options: SeedOptions) -> None:
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._process = Process(cluster.world, _CLIENT_ID)
        self._process.start()
        self._random = cluster.world.stream("throttles")
        self._controller = ControllerClient(
            cluster, self._process, self._random, may_use_brokers=False
        )
        self._is_set = False
        self.is_stopped = False
        self.changes = 0

    def start(self) -> None:
        """Begin to throttle."""
        self._process.after_ms(self._random.randrange(_LONGEST_MS), self._next)
        self._count()

    def _count(self) -> None:
        """Count the followers that leave a throttled partition out of their fetches."""
        world = self._cluster.world
        nodes = (node for node in self._cluster.nodes.values() if node.process.is_running)
        if any(node.is_throttled for node in nodes):
            world.rare.reached(RareState.REPLICA_THROTTLED)
        world.after(_SAMPLE_US, self._count)

    def stop(self) -> None:
        """Set no throttle any longer; the one that is set ends at once."""
        self.is_stopped = True
        if self._is_set:
            self._process.after_ms(0, self._submit, False)

    def _next(self) -> None:
        if not self.is_stopped:
            self._submit(not self._is_set)

    def _submit(self, sets: bool) -> None:
        """Change the configuration until it is done; an unknown outcome counts as set."""
        self._is_set = True

        def done(response: Any) -> None:
            is_done = response is not None and not any(
                each.error_code for each in response.responses
            )
            if is_done:
                self.changes += 1
                self._is_set = sets
            if self.is_stopped and self._is_set:
                self._process.after_ms(_RETRY_MS, self._submit, False)
            else:
                pause_ms = self._random.randrange(_LONGEST_MS) if is_done else _RETRY_MS
                self._process.after_ms(pause_ms, self._next)

        request = IncrementalAlterConfigsRequest(resources=self._resources(sets))
        self._controller.submit(request, done)

    def _resources(self, sets: bool) -> list[Resource]:
        rates = {
            f"{side}.replication.throttled.rate": str(self._options.throttle_bytes)
            for side in _SIDES
        }
        replicas = {f"{side}.replication.throttled.replicas": self._replicas() for side in _SIDES}
        brokers = self._options.broker_ids
        return [
            *(_resource(RESOURCE_BROKER, str(broker), rates, sets=sets) for broker in brokers),
            _resource(RESOURCE_TOPIC, self._topic, replicas, sets=sets),
        ]

    def _replicas(self) -> str:
        """Return all replicas, or those of a random broker."""
        if self._random.random() < 0.7:
            return "*"
        broker = self._random.choice(self._options.broker_ids)
        return ",".join(f"{number}:{broker}" for number in range(self._options.partitions))

    def check_end(self) -> None:
        """The throttle has ended."""
        require(not self._is_set, "LIVENESS", "replication is still throttled")


def _resource(kind: int, name: str, values: dict[str, str], *, sets: bool) -> Resource:
    config = IncrementalAlterConfigsRequest.AlterableConfig
    operation = _SET if sets else _DELETE
    return Resource(
        resource_type=kind,
        resource_name=name,
        configs=[
            config(name=key, config_operation=operation, value=value if sets else None)
            for key, value in values.items()
        ],
    )
