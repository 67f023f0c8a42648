"""One partition on three brokers, simulated: elections, lost images, late responses and kills.

The followers are the real ones (`FetcherAssignments`, `FetcherCore`), the logs `SimLog`. The
controller is a model: it elects members of the ISR and each broker applies its decisions late.
`run(seed)` raises `Violation` when

    P1  two replicas differ below their high watermarks
    P4  a committed record is lost or changed
    L   the replicas are not equal after all faults have ended
"""

import random
from typing import NamedTuple

from barnabas.cluster.replication.fetcher_assignments import FetcherAssignments, FetcherKey
from barnabas.cluster.replication.fetcher_core import FetcherCore, Request
from barnabas.cluster.replication.replication_quota import ReplicationQuota
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsResponse
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import NOW_MS
from barnabas.testing.simulation.rare_states import Divergences, RareStates
from tests.cluster.replication.fetcher_world import SETTINGS, SimLeader, SimReplica, next_request

BROKERS = (1, 2, 3)


class Violation(Exception):  # noqa: N818  (what the simulation looks for)
    """A property of the simulation does not hold."""


class View(NamedTuple):
    """A decision of the controller."""

    leader: int
    epoch: int
    isr: frozenset[int]
    partition_epoch: int = 0


class InFlight(NamedTuple):
    """A request on its way, or its response."""

    core: FetcherCore
    leader: int
    request: Request
    response: FetchResponse | ListOffsetsResponse | None


class Cluster:
    """The brokers, what they know, and the messages between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self.number = 0
        self.replicas = {each: SimReplica(each) for each in BROKERS}
        self.fetchers: dict[int, FetcherAssignments] = {}
        self.messages: dict[tuple[int, FetcherKey], InFlight] = {}
        self.sessions: dict[tuple[int, int], SimLeader] = {}
        self.committed: list[bytes] = []  # the batches below a leader's high watermark
        self.truncations = 0
        self.rare = RareStates()
        self.divergences = {each: Divergences(self.rare) for each in BROKERS}
        self.applied = dict.fromkeys(BROKERS, -1)
        for each in BROKERS:
            self._start(each)
        self.view = View(1, 0, frozenset(BROKERS))
        self.pending: dict[int, list[View]] = {each: [self.view] for each in BROKERS}

    def _start(self, broker: int) -> None:
        self.fetchers[broker] = FetcherAssignments(broker, ReplicationQuota())
        self.fetchers[broker].configure(SETTINGS)
        self.messages = {key: each for key, each in self.messages.items() if key[0] != broker}
        self.sessions = {key: each for key, each in self.sessions.items() if broker not in key}

    # Events

    def step(self) -> None:
        self.now_ms += self.random.randrange(30)
        event = self.random.choices(
            (self.apply, self.produce, self.fetch, self.deliver, self.elect, self.kill, self.isr),
            weights=(4, 5, 12, 12, 1.2, 0.4, 2),
        )[0]
        event()
        self.check()

    def apply(self) -> None:
        """One broker applies the next, or only the latest, of the controller's decisions."""
        broker = self.random.choice(BROKERS)
        pending = self.pending[broker]
        if not pending:
            return
        if self.random.random() < 0.5:
            del pending[:-1]
        self._apply(broker, pending.pop(0))

    def _apply(self, broker: int, view: View) -> None:
        replica, fetchers = self.replicas[broker], self.fetchers[broker]
        if view.partition_epoch <= self.applied[broker]:
            return
        self.applied[broker] = view.partition_epoch
        if view.leader == broker:
            fetchers.unfollow((replica.topic_id, 0))
            replica.lead(view.epoch, set(view.isr))
            return
        replica.is_leader, replica.leader_epoch = False, view.epoch
        fetchers.follow(replica, view.leader, view.epoch)

    def produce(self) -> None:
        for replica in self.replicas.values():
            if replica.is_leader and self.random.random() < 0.7:
                self.number += 1
                replica.produce(b"%d" % self.number)

    def fetch(self) -> None:
        """A follower sends its next request."""
        broker = self.random.choice(BROKERS)
        for key, core in list(self.fetchers[broker].cores.items()):
            request = next_request(core, self.now_ms)
            if request is not None:
                self.messages[broker, key] = InFlight(core, key.leader, request, None)

    def deliver(self) -> None:
        """A request reaches its leader, or a response its follower."""
        if not self.messages:
            return
        place = self.random.choice(sorted(self.messages))
        core, leader, request, response = self.messages[place]
        broker = place[0]
        if response is None:
            served = self._serve(broker, leader, request)
            self.messages[place] = InFlight(core, leader, request, served)
            return
        del self.messages[place]
        if isinstance(response, FetchResponse):
            self.divergences[broker].answered(response, lambda key: epoch_of(core, key))
        core.on_response(response, self.now_ms, wall_ms=NOW_MS)

    def _serve(
        self, follower: int, leader: int, request: Request
    ) -> FetchResponse | ListOffsetsResponse:
        key = (leader, follower)
        session = self.sessions.get(key)
        if session is None:
            session = self.sessions[key] = SimLeader(self.replicas[leader])
            session.id = 100 + self.now_ms
        return session.respond(request, follower)

    def elect(self) -> None:
        """The controller elects a member of the ISR, perhaps the same one in a new epoch."""
        leader = self.random.choice(sorted(self.view.isr))
        self.decide(View(leader, self.view.epoch + 1, self.view.isr))

    def decide(self, view: View) -> None:
        self.view = view._replace(partition_epoch=self.view.partition_epoch + 1)
        for pending in self.pending.values():
            pending.append(self.view)

    def isr(self) -> None:
        """The leader of the current epoch changes the ISR; both sides know at once."""
        view = self.view
        replica = self.replicas[view.leader]
        if not replica.is_leader or replica.leader_epoch != view.epoch:
            return
        other = self.random.choice([each for each in BROKERS if each != view.leader])
        isr = set(view.isr)
        if other in isr:
            isr.discard(other)
        elif replica.ends.get(other, -1) >= max(
            replica.log.high_watermark, replica.log.epochs.get(view.epoch, 1 << 60)
        ):
            isr.add(other)
        replica.isr = set(isr)
        self.view = view._replace(isr=frozenset(isr), partition_epoch=view.partition_epoch + 1)
        self.applied[view.leader] = self.view.partition_epoch
        replica.advance()

    def kill(self) -> None:
        """A broker ends and starts again; the page cache remains."""
        broker = self.random.choice(BROKERS)
        replica = self.replicas[broker]
        if self.random.random() < 0.5:
            replica.log.checkpoint()
        replica.log.crash()
        replica.is_leader = False
        self._start(broker)
        self.applied[broker] = -1
        self.pending[broker] = [self.view]
        view = self.view
        if view.isr == {broker}:
            self.decide(View(broker, view.epoch + 1, view.isr))
            return
        isr = view.isr - {broker}
        leader = self.random.choice(sorted(isr)) if view.leader == broker else view.leader
        epoch = view.epoch + (view.leader == broker)
        self.decide(View(leader, epoch, isr))

    # Properties

    def check(self) -> None:
        for replica in self.replicas.values():
            below = [
                data
                for header, data in replica.log.batches
                if header.next_offset <= replica.log.high_watermark
            ]
            known = min(len(below), len(self.committed))
            if below[:known] != self.committed[:known]:
                raise Violation(f"P1: broker {replica.broker} differs below the high watermark")
            self.committed += below[known:]
        leader = self.replicas[self.view.leader]
        if leader.is_leader and leader.leader_epoch == self.view.epoch:
            held = [data for _, data in leader.log.batches]
            if held[: len(self.committed)] != self.committed:
                raise Violation("P4: the leader lacks committed records")

    def heal(self) -> None:
        """End all faults, and wait until nothing changes."""
        self.decide(View(self.view.leader, self.view.epoch + 1, self.view.isr))
        for broker in BROKERS:
            self.pending[broker].clear()
            self._apply(broker, self.view)
        for _ in range(400):
            self.now_ms += 100
            self.fetch()
            self.deliver()
            self.deliver()
            self.check()
        logs = [each.log.records() for each in self.replicas.values()]
        if logs.count(logs[0]) != len(logs):
            raise Violation("L: the replicas differ after all faults have ended")
        for replica in self.replicas.values():
            self.truncations += len(replica.truncations)


def epoch_of(core: FetcherCore, key: tuple[Uuid, int]) -> int:
    """Return the leader epoch in which a fetcher follows a partition, -1 when it does not."""
    followed = core.partitions.get(key)
    return -1 if followed is None else followed.leader_epoch


def run(seed: int, steps: int = 300) -> Cluster:
    """Run one seed. Raises Violation."""
    cluster = Cluster(seed)
    for _ in range(steps):
        cluster.step()
    cluster.heal()
    return cluster
