"""One partition on three brokers, simulated from the leader's side: ISR, high watermark, acks.

The leaders (`Partition`, `IsrManager`, the Fetch handler with its sessions), the followers
(`FetcherCore`) and the controller's decisions are the real ones; the logs are `SimLog`. Brokers
apply the metadata late, requests and responses get lost, brokers are killed, lose unsynced records
with the power, and are fenced while they run. `run(seed)` raises `Violation` when

    P0  two brokers append in one leader epoch
    P1  two replicas differ below their high watermarks
    P2  a consumer sees a record that is not committed
    P3  acks=all succeeds without all of the maximal ISR or of the controller's ISR, or below
        min.insync.replicas
    P4  a committed record is lost
    EP  the log of a leader does not state its epoch (KIP-279)
    L   something is not at rest after all faults have ended
"""

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from barnabas.clock import Clock
from barnabas.cluster.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.cluster.metadata.image import (
    RESOURCE_TOPIC,
    BrokerImage,
    MetadataImage,
    PartitionImage,
)
from barnabas.cluster.replication import Partition
from barnabas.cluster.replication.fetcher_assignments import FetcherAssignments
from barnabas.cluster.replication.fetcher_core import FetcherCore
from barnabas.cluster.replication.isr_manager import IsrManager, IsrProposal
from barnabas.cluster.replication.line_budget import LineBudget
from barnabas.cluster.replication.replication_quota import ReplicationQuota
from barnabas.config import NodeConfig, TopicConfig
from barnabas.log import AppendInfo
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
from barnabas.protocol.types import Uuid
from barnabas.server.api.handlers.data.fetch_handler import Fetching, begin_fetch
from barnabas.server.api.node_quotas import ClientQuotas
from barnabas.server.replication.fetch_sessions import FetchSessionCache
from barnabas.testing.batches import NOW_MS, batch
from barnabas.testing.sim_log import SimLog
from barnabas.testing.simulation.rare_states import Divergences, RareState, RareStates
from tests.cluster.replication.replication_simulation import epoch_of
from tests.cluster.states import Cluster, registration

BROKERS = (1, 2, 3)
MIN_ISR = 2  # at first
LAG_MS = 30_000
FETCH_VERSION = 17
CONFIG = NodeConfig.load(None, {})
ANSWER_STEPS_MAX = 40


class Violation(Exception):  # noqa: N818  (what the simulation looks for)
    """A property of the simulation does not hold."""


class Records(bytes):
    """Batches that the Fetch handler has read; they are in memory, so they have no file."""

    file = None


class ReadLog(SimLog):
    """A log that the Fetch handler can read."""

    def append_as_leader(self, *args: Any, done: object = None, **fields: Any) -> AppendInfo:
        return super().append_as_leader(*args, **fields)

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def below(self, end: int) -> list[bytes]:
        return [data for header, data in self.batches if header.next_offset <= end]

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one_message: bool = True
    ) -> Records:
        wanted = [
            data
            for header, data in self.batches
            if header.last_offset >= offset and header.next_offset <= upper_bound
        ]
        return Records(b"".join(wanted[:2]))


class Broker:
    """One broker: the host of the partition, its fetchers and its ISR manager."""

    replica_lag_time_max_ms = LAG_MS

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.log = ReadLog()
        self.lives = 0
        self.start()

    def start(self) -> None:
        self.lives += 1
        world = self.world
        self.partition = Partition("t", 0, world.topic_id, self)
        self.fetchers = FetcherAssignments(self.broker_id, ReplicationQuota())
        self.divergences = Divergences(world.rare)
        self.isr_manager = IsrManager(self.broker_id)
        self.isr_lines = LineBudget()
        self.clock = Clock(lambda: world.now_ms, lambda: world.now_ms)
        self.leader_quota = ReplicationQuota()
        self.applied = len(world.images) - 2
        services = SimpleNamespace(
            replicas=self,
            fetch_sessions=FetchSessionCache(10, lambda: world.random.randrange(1, 1 << 31)),
            settings=SimpleNamespace(current={"fetch.max.bytes": 1 << 20}),
            clock=self.clock,
            quotas=ClientQuotas(11, 1000, lambda: world.now_ms),
        )
        self.context: Any = SimpleNamespace(
            services=services,
            route=SimpleNamespace(authorizer=None),
            version=FETCH_VERSION,
            connection=SimpleNamespace(listener_name="PLAINTEXT"),
        )

    @property
    def image(self) -> MetadataImage:
        return self.world.images[max(self.applied, 0)]

    def apply(self, number: int) -> None:
        self.applied = number
        image = self.image.partition("t", 0)
        assert image is not None
        partition = self.partition
        partition.update(image, TopicConfig(CONFIG, self.image.topic_config("t")))
        if partition.is_leader or image.leader < 0:
            self.fetchers.unfollow((partition.topic_id, 0))
        else:
            self.fetchers.follow(partition, image.leader, image.leader_epoch)
        partition.commit_more()

    # The partition's host

    def registered_broker(self, broker: int) -> BrokerImage | None:
        return self.image.brokers.get(broker)

    def open_log(self, partition: Partition, create: bool) -> Any:
        return self.log

    def propose_isr(self, proposal: IsrProposal) -> None:
        self.isr_manager.submit(proposal)

    def isr_changed(self, *, expanded: bool) -> None:
        self.world.counts["expanded" if expanded else "shrunk"] += 1

    # The replicas of the Fetch handler

    def partition_by_id(self, topic_id: Uuid, number: int, epoch: int = -1) -> Partition:
        self.partition.check_leader(epoch)
        return self.partition

    def replica(self, topic_id: Uuid, number: int, epoch: int) -> Partition:
        self.partition.check_epoch(epoch)
        return self.partition

    def note_divergence(self, core: FetcherCore, response: FetchResponse) -> None:
        self.divergences.answered(response, lambda key: epoch_of(core, key))

    def fetch(self, request: FetchRequest) -> Any:
        begun = begin_fetch(self.context, request)
        # When there is nothing to return yet, its time is over at once.
        return begun.response() if isinstance(begun, Fetching) else begun


class InFlight(NamedTuple):
    """A request on its way, or its response."""

    core: FetcherCore
    leader: int
    life: int
    request: Any
    response: Any = None


class Produced(NamedTuple):
    """A write with acks=all without an outcome.

    Its outcome is looked at from `from_step` on: another partition of its request may need longer.
    """

    partition: Partition
    last_offset: int
    batch: bytes
    from_step: int


class World:
    """The brokers, the controller, and the messages between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = LAG_MS * 10
        self.events = [event for event, _ in EVENTS]
        self.weights = self._drawn_weights()
        self.late_broker = self.random.choice((0, *BROKERS))  # it applies the metadata late
        self.slow_broker = self.random.choice((0, *BROKERS))  # its fetches are rare; 0: none
        self.number = self.steps = self.next_kill = 0
        self.is_ambushed = False
        self.rare = RareStates()
        self.cluster = Cluster(brokers=3)
        self.cluster.replay(
            [FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)]
        )
        created = self.cluster.create("t", replicas=3, min_insync_replicas=str(MIN_ISR))
        self.topic_id = created.topic_id
        self.images = [self.cluster.image]
        self.counts: dict[str, int] = dict.fromkeys(
            ("acked", "expanded", "shrunk", "refused", "refused_after", "power", "consumed"), 0
        )
        self.appenders: dict[int, int] = {}
        self.committed: list[bytes] = []
        self.pending: list[Produced] = []
        self.fetches: dict[tuple[int, Any], InFlight] = {}
        self.changes: dict[int, tuple[IsrManager, Any, Any]] = {}
        self.without_power: set[int] = set()  # since then not in the ISR
        self.brokers = {each: Broker(self, each) for each in BROKERS}
        for broker in self.brokers.values():
            broker.apply(0)

    def _drawn_weights(self) -> list[float]:
        """Return how often each event happens: each seed has some faults, few or many."""
        intensity = self.random.choice(INTENSITIES)
        return [
            weight * intensity * self.random.choice(SWARM_OF_FAULTS)
            if event in FAULTS
            else weight * self.random.choice(SWARM)
            for event, weight in EVENTS
        ]

    @property
    def truth(self) -> PartitionImage:
        image = self.cluster.image.partition("t", 0)
        assert image is not None
        return image

    def decided(self) -> None:
        """The controller has changed the metadata."""
        for delta in self.cluster.deltas:
            self.rare.committed(delta)
        self.cluster.deltas.clear()
        if self.cluster.image is not self.images[-1]:
            self.images.append(self.cluster.image)
            self.without_power -= set(self.truth.isr)

    def leaders(self) -> Iterator[Broker]:
        return (each for each in self.brokers.values() if each.partition.is_leader)

    # Events

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.next_kill:
            self.kill_leader()
        self.now_ms += self.random.randrange(200)
        self.random.choices(self.events, weights=self.weights)[0](self)
        self.check()

    def apply(self) -> None:
        """One broker applies the next image, or skips some."""
        broker = self.brokers[self.random.choice(BROKERS)]
        latest = len(self.images) - 1
        if broker.broker_id == self.late_broker and self.random.random() < 0.8:
            return
        if broker.applied < latest:
            is_next = self.random.random() < 0.5
            following = broker.applied + 1
            broker.apply(following if is_next else self.random.randint(following, latest))

    def change_others(self) -> None:
        """Other metadata change: brokers get an image with the same partition."""
        if self.random.random() < 0.3:
            self.images.append(self.cluster.image)

    def produce(self) -> None:
        for broker in list(self.leaders()):
            self.number += 1
            data, partition = batch(b"%d" % self.number), broker.partition
            acks, end = self.random.choice((1, -1)), broker.log.log_end_offset
            try:
                info = partition.append(data, required_acks=acks, origin="client", now_ms=NOW_MS)
            except KafkaError as error:
                require(error.code is ErrorCode.NOT_ENOUGH_REPLICAS, "P3", f"{error}")
                require(broker.log.log_end_offset == end, "P3", "a refused batch is written")
                self.rare.answered(error)
                self.counts["refused"] += 1
                continue
            appender = self.appenders.setdefault(partition.leader_epoch, broker.broker_id)
            require(appender == broker.broker_id, "P0", f"epoch {partition.leader_epoch}")
            if acks == -1:
                is_late = self.random.random() < 0.2
                step = self.steps + is_late * self.random.randrange(ANSWER_STEPS_MAX)
                self.pending.append(Produced(partition, info.last_offset, bytes(data), step))

    def consume(self) -> None:
        """A consumer reads a leader or a follower from its log start."""
        broker = self.brokers[self.random.choice(BROKERS)]
        asked = FetchRequest.FetchPartition(
            fetch_offset=self.random.randrange(broker.log.log_end_offset + 1),
            partition_max_bytes=1 << 20,
        )
        topic = FetchRequest.FetchTopic(topic_id=self.topic_id, partitions=[asked])
        request = FetchRequest(topics=[topic], max_bytes=1 << 20, session_epoch=-1)
        (answered,) = broker.fetch(request).responses
        seen = bytes(answered.partitions[0].records or b"")
        require(seen in b"".join(self.committed), "P2", f"read from broker {broker.broker_id}")
        self.counts["consumed"] += bool(seen)

    def send_fetch(self) -> None:
        broker = self.brokers[self.random.choice(BROKERS)]
        if broker.broker_id == self.slow_broker and self.random.random() < 0.8:
            return
        epoch = self.cluster.image.brokers[broker.broker_id].epoch
        for key, core in list(broker.fetchers.cores.items()):
            request = core.next_request(self.now_ms, version=FETCH_VERSION, broker_epoch=epoch)
            if request is not None:
                life = self.brokers[key.leader].lives
                self.fetches[broker.broker_id, key] = InFlight(core, key.leader, life, request)

    def deliver_fetch(self) -> None:
        if not self.fetches:
            return
        place = self.random.choice(sorted(self.fetches))
        core, leader, life, request, response = self.fetches[place]
        broker = self.brokers[leader]
        if broker.lives != life or self.random.random() < 0.01:
            del self.fetches[place]
            core.on_failure(self.now_ms)
        elif response is not None:
            del self.fetches[place]
            log = self.brokers[place[0]].log
            end = log.log_end_offset
            if isinstance(response, FetchResponse):
                self.brokers[place[0]].note_divergence(core, response)
            core.on_response(response, self.now_ms, wall_ms=NOW_MS)
            if self.is_ambushed and log.log_end_offset < end:
                self.is_ambushed = False
                self.kill_leader()
        elif isinstance(request, FetchRequest):
            served = broker.fetch(request)
            self.rare.answered(served)
            self.fetches[place] = InFlight(core, leader, life, request, served)
        else:
            served = self._offsets(broker, request)
            self.fetches[place] = InFlight(core, leader, life, request, served)

    def _offsets(self, broker: Broker, request: Any) -> ListOffsetsResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        answer = ListOffsetsResponse.ListOffsetsPartitionResponse()
        try:
            broker.partition.check_leader(asked.current_leader_epoch)
            answer.offset = broker.log.log_end_offset if asked.timestamp == -1 else 0
        except KafkaError as error:
            answer.error_code = error.code
        found = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[answer])
        return ListOffsetsResponse(topics=[found])

    def send_isr(self) -> None:
        waiting = [
            each for each in self.brokers.values() if each.isr_manager.wakeup_ms() is not None
        ]
        if not waiting:
            return
        broker = self.random.choice(waiting)
        registered = broker.image.brokers[broker.broker_id]
        request = broker.isr_manager.poll(registered.epoch, self.now_ms)
        if request is not None:
            self.changes[broker.broker_id] = (broker.isr_manager, request, None)

    def deliver_isr(self) -> None:
        if not self.changes:
            return
        broker = self.random.choice(sorted(self.changes))
        manager, request, response = self.changes.pop(broker)
        if response is not None:
            manager.on_response(response, self.now_ms)
            return
        try:
            answered = self.cluster.take(self.cluster.controller.handle(request, 3))
        except KafkaError:
            answered = None
        self.decided()
        self.rare.answered(answered)
        if answered is None or self.random.random() < 0.4:  # the answer is lost
            manager.on_failure(self.now_ms)
        else:
            self.changes[broker] = (manager, request, answered)

    def pass_time(self) -> None:
        """A follower that does not fetch meanwhile lags."""
        self.now_ms += LAG_MS // 2
        for broker in self.brokers.values():
            broker.partition.check_isr()

    def fence(self) -> None:
        """A broker's session ends although it runs."""
        broker = self.random.choice(BROKERS)
        if not self.cluster.image.brokers[broker].fenced:
            request = self.cluster.heartbeat(broker, want_fence=True)
            self.cluster.take(self.cluster.controller.broker_heartbeat(request))
            self.decided()

    def unfence(self) -> None:
        fenced = [each for each in BROKERS if self.cluster.image.brokers[each].fenced]
        if fenced:
            self.cluster.unfence(self.random.choice(fenced))
            self.decided()

    def alter_min_isr(self) -> None:
        """An administrator changes min.insync.replicas, which clears the ELR.

        Not while the ISR is empty: then only an unclean election would be left.
        """
        if not self.truth.isr:
            return
        kind = IncrementalAlterConfigsRequest
        value = str(self.random.choice((1, 2, 2, 2, 3)))
        config = kind.AlterableConfig(name="min.insync.replicas", config_operation=0, value=value)
        resource = kind.AlterConfigsResource(
            resource_type=RESOURCE_TOPIC, resource_name="t", configs=[config]
        )
        request = kind(resources=[resource])
        self.cluster.take(self.cluster.controller.incremental_alter_configs(request))
        self.decided()

    def flush(self) -> None:
        log = self.brokers[self.random.choice(BROKERS)].log
        log.flush()
        log.checkpoint()

    def kill(self) -> None:
        self.end(self.brokers[self.random.choice(BROKERS)])

    def kill_leader(self) -> None:
        """The leader ends, and perhaps the next one soon after it."""
        if self.truth.leader >= 0:
            self.next_kill = self.steps + self.random.randrange(60)
            self.end(self.brokers[self.truth.leader])

    def kill_joiner(self) -> None:
        """A replica loses its power while the request that adds it to the ISR is on its way."""
        for _, request, response in self.changes.values():
            (topic,) = request.topics
            asked = {each.broker_id for each in topic.partitions[0].new_isr_with_epochs}
            joining = sorted(asked - {*self.truth.isr})
            if response is None and joining:
                self.next_kill = self.steps + self.random.randrange(60)
                self.end(self.brokers[joining[0]], by_power=True)
                return

    def ambush(self) -> None:
        """The leader will end when a follower has truncated its log."""
        self.is_ambushed = True

    def end(self, broker: Broker, *, by_power: bool = False) -> None:
        """A broker ends, perhaps by a loss of power, and registers again."""
        safe = {*self.truth.isr, *self.truth.elr} - {broker.broker_id}
        if not safe and self.without_power:
            return  # an unclean election would follow, which may lose records
        is_power_lost = bool(safe) and (by_power or self.random.random() < 0.5)
        if is_power_lost:
            broker.log.lose_power(self.random.randrange(2))
            self.counts["power"] += 1
        else:
            broker.log.crash()
        incarnation = broker.broker_id + 10 * (broker.lives + 1)
        self.cluster.register(registration(broker.broker_id, incarnation=incarnation))
        self.decided()
        if is_power_lost:
            self.without_power.add(broker.broker_id)
        self.fetches = {
            key: each for key, each in self.fetches.items() if key[0] != broker.broker_id
        }
        # A request for the controller may arrive although its sender is gone.
        broker.start()
        broker.apply(len(self.images) - 1)

    # Properties

    def check(self) -> None:
        for broker in self.brokers.values():
            below = broker.log.below(broker.log.high_watermark)
            known = min(len(below), len(self.committed))
            require(below[:known] == self.committed[:known], "P1", f"broker {broker.broker_id}")
            self.committed += below[known:]
        self._check_leader()
        for broker in self.leaders():
            epoch = broker.partition.leader_epoch
            is_stated = not broker.partition.is_open or broker.log.latest_epoch == epoch
            require(is_stated, "EP", f"broker {broker.broker_id} leads {epoch}")
        self.pending = [each for each in self.pending if not self._is_settled(each)]

    def _check_leader(self) -> None:
        leader = self.brokers.get(self.truth.leader)
        if leader is not None and leader.partition.leader_epoch == self.truth.leader_epoch:
            held = leader.log.below(leader.log.log_end_offset)[: len(self.committed)]
            require(held == self.committed, "P4", f"leader {leader.broker_id} lacks records")

    def _is_settled(self, produced: Produced) -> bool:
        partition, last_offset, data, from_step = produced
        if self.steps < from_step:
            return False
        broker = self.brokers[partition.broker_id]
        outcome = partition.acks_outcome(last_offset)
        if broker.partition is not partition or outcome not in (None, ErrorCode.NONE):
            is_too_late = outcome is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self.counts["refused_after"] += is_too_late
            if is_too_late:
                self.rare.reached(RareState.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            return True
        state = partition.leader_state
        if outcome is None or state is None:
            return False
        members = set(state.isr.maximal)
        is_enough = len(members) >= partition.min_insync_replicas
        require(is_enough, "P3", f"acknowledged with the ISR {members}")
        if self.truth.leader_epoch == partition.leader_epoch:
            members |= set(self.truth.isr)
        for member in members - self.without_power:
            log = self.brokers[member].log
            require(data in log.below(log.log_end_offset), "P3", f"broker {member} lacks it")
        self.counts["acked"] += 1
        return True

    def heal(self) -> None:
        """End all faults, and wait until nothing changes."""
        self.is_ambushed = False
        for broker in BROKERS:
            if self.cluster.image.brokers[broker].fenced:
                self.cluster.unfence(broker)
                self.decided()
        self.random.random = lambda: 1.0  # type: ignore[method-assign]  # no message is lost
        for _ in range(600):
            self.now_ms += 100
            for event in (World.apply, World.send_fetch, World.deliver_fetch, World.deliver_fetch):
                event(self)
            self.send_isr()
            self.deliver_isr()
            self.check()
        require(sorted(self.truth.isr) == list(BROKERS), "L", f"the ISR is {self.truth.isr}")
        first, *others = (each.log for each in self.brokers.values())
        for log in (first, *others):
            require(log.records() == first.records(), "L", "the replicas differ")
            require(log.high_watermark == first.log_end_offset, "L", "a high watermark lags")


EVENTS = (
    (World.apply, 8.0),
    (World.change_others, 1.0),
    (World.produce, 7.0),
    (World.consume, 1.0),
    (World.send_fetch, 14.0),
    (World.deliver_fetch, 14.0),
    (World.send_isr, 5.0),
    (World.deliver_isr, 5.0),
    (World.pass_time, 0.6),
    (World.fence, 0.35),
    (World.unfence, 3.0),
    (World.alter_min_isr, 0.2),
    (World.flush, 0.5),
    (World.kill, 0.3),
    (World.kill_leader, 0.2),
    (World.kill_joiner, 0.5),
    (World.ambush, 0.2),
)


FAULTS = (
    World.pass_time,
    World.fence,
    World.alter_min_isr,
    World.kill,
    World.kill_leader,
    World.ambush,
)
SWARM = (0.5, 1.0, 2.0)
SWARM_OF_FAULTS = (0.0, 1.0, 1.0, 3.0)
INTENSITIES = (0.1, 0.3, 1.0)
"""Each seed has more of some events and fewer of others."""


def require(condition: bool, name: str, what: str) -> None:
    if not condition:
        raise Violation(f"{name}: {what}")


def run(seed: int, steps: int = 1000) -> World:
    """Run one seed. Raises Violation."""
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.heal()
    return world
