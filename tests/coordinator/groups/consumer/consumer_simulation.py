"""Members of both protocols in one group, a faulty network and a coordinator that dies.

As in `simulation`, clients do what clients do, on one clock and one seed: those of the consumer
protocol (KIP-848, some static, some subscribed by an expression) heartbeat, take and give up
partitions; classic ones join and sync, eager or cooperative. They come and go, so the group turns
from one type to the other and back. Requests are lost, late and repeated, replies are lost and
late, appends are refused, the coordinator restarts from its log, the topic grows. A client has one
connection at a time: requests do not overtake each other on it, and requests in progress when it
closes a connection do not arrive.

G1 the records never give a partition to two members, and what a client holds is its member's in
the records, as long as it is in the group; G2 a look-up gives the last commit that was written;
G3 a commit that counts comes from the member that has the partition; G4 in the end every record
was processed; G5 the partitions of the dead are owned by the living in time.
"""

from collections.abc import Callable
from typing import Any

import attrs

from barnabas.coordinator.core.coordinator_output import Caller, Record
from barnabas.coordinator.groups.consumer import embedded_protocol
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
)
from barnabas.protocol.records.group_records import GroupMetadataKey, OffsetCommitKey
from tests.coordinator.faulty_world import FaultyClient, FaultyWorld, ViolationError
from tests.coordinator.groups.classic.classic_simulation import code
from tests.coordinator.groups.group_harness import (
    Coordinator,
    commit_request,
    fetch_request,
    join_request,
    topic_id,
)

TOPIC = "t"
PARTITIONS = 5
PARTITIONS_MAX = 8
RECORDS = 20
SESSION_MS = 10_000
REBALANCE_MS = 12_000
HEARTBEAT_MS = 2_500
REQUEST_TIMEOUT_MS = 5_000
JOIN_TIMEOUT_MS = REBALANCE_MS + 10_000
RETRIABLE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
Held = set[int]


@attrs.define
class Checker:
    """Follows what was written: who is in the group, and what they have."""

    # Of a consumer group: partitions that a member has or still has to give up.
    owned: dict[str, Held] = attrs.Factory(dict)
    # Of a classic group: its members, and what each was assigned in the generation.
    classic: dict[str, Held] | None = None
    written: dict[int, int] = attrs.Factory(dict)
    processed: set[tuple[int, int]] = attrs.Factory(set)
    kinds: set[str] = attrs.Factory(set)
    # How often an id has become a member, and when it last ceased to be one. A member that was
    # removed and returns has no right to old partitions. A group that changes its type removes no
    # member.
    births: dict[str, int] = attrs.Factory(dict)
    departed_ms: dict[str, int] = attrs.Factory(dict)
    now_ms: Callable[[], int] = lambda: 0
    # Receives the generation at which a classic group becomes a consumer group.
    upgraded: Callable[[int], None] = lambda _generation: None
    upgrades: bool = False

    def arrives(self, member_id: str) -> None:
        if self.departed_ms.pop(member_id, None) != self.now_ms():
            self.births[member_id] = self.births.get(member_id, 0) + 1

    def departs(self, member_id: str) -> None:
        self.departed_ms[member_id] = self.now_ms()

    def appended(self, record: Record) -> None:
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            self.written[key.partition] = -1 if value is None else value.offset
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            if value is None:
                self.owned.pop(key.member_id, None)
                self.departs(key.member_id)
            elif key.member_id not in self.owned:
                self.owned[key.member_id] = set()
                self.arrives(key.member_id)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            topics = [] if value is None else value.assigned_partitions
            more = [] if value is None else value.partitions_pending_revocation
            self.owned[key.member_id] = {p for t in [*topics, *more] for p in t.partitions}
            self._check_owners()
        elif isinstance(key, ConsumerGroupMetadataKey):
            self.kinds.add("consumer")
            if value is None:
                self.owned.clear()
            elif self.upgrades:
                self.upgraded(value.epoch)
            self.upgrades = False
        elif isinstance(key, GroupMetadataKey):
            self.kinds.add("classic")
            before = self.classic or {}
            self.classic = None
            self.upgrades = value is None
            if value is not None:
                self.classic = {m.member_id: partitions_in(m.assignment) for m in value.members}
            for member_id in before.keys() - (self.classic or {}).keys():
                self.departs(member_id)
            for member_id in (self.classic or {}).keys() - before.keys():
                self.arrives(member_id)

    def _check_owners(self) -> None:
        seen: dict[int, str] = {}
        for member_id, partitions in self.owned.items():
            for partition in partitions:
                other = seen.setdefault(partition, member_id)
                if other != member_id:
                    raise ViolationError(f"G1: {partition} is {other}'s and {member_id}'s")

    def holds(self, member_id: str, birth: int | None, held: Held) -> None:
        """A client that is in a consumer group holds no more than the records say."""
        if birth != self.births.get(member_id):
            return
        if self.classic is None and member_id in self.owned:
            extra = held - self.owned[member_id]
            if extra:
                raise ViolationError(f"G1: {member_id} holds {extra}, has {self.owned[member_id]}")

    def committed(self, member_id: str, partitions: Held) -> None:
        if self.classic is not None:
            if member_id not in self.classic:
                raise ViolationError(f"G3: {member_id} is not a member, and has committed")
        elif not partitions <= self.owned.get(member_id, set()):
            raise ViolationError(f"G3: {member_id} has committed {partitions}")

    def fetched(self, partition: int, offset: int) -> None:
        if self.written.get(partition, -1) != offset:
            raise ViolationError(f"G2: {partition} is {offset}, written {self.written}")


def partitions_in(assignment: bytes) -> Held:
    found = embedded_protocol.read_assignment(assignment).assigned_partitions
    return {p for topic in found for p in topic.partitions}


class World(FaultyWorld):
    """One seed's run; `run` raises ViolationError."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        random = self.random
        self.checker = Checker(now_ms=lambda: self.now_ms, upgraded=self.upgraded)
        self.partitions = PARTITIONS
        settings = GroupSettings(
            initial_rebalance_delay_ms=random.choice([0, 500]),
            consumer_session_timeout_ms=SESSION_MS,
            consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            consumer_assignment_interval_ms=random.choice([0, 1000]),
        )
        self.coordinator = Coordinator(settings, now_ms=0, appended=self.checker.appended)
        self.coordinator.set_topics(**{TOPIC: PARTITIONS, "other": 3})
        cooperative = random.random() < 0.5
        static = random.random() < 0.4
        self.clients: list[Client] = [
            ConsumerClient(self, f"n{i}", static=static and i == 0) for i in range(3)
        ]
        self.clients += [
            ClassicClient(self, f"o{i}", static=static and i == 0, cooperative=cooperative)
            for i in range(random.choice([0, 2]))
        ]

    def upgraded(self, generation: int) -> None:
        """A member that missed the last classic generation has no right to its partitions."""
        for client in self.clients:
            if client.epoch < generation:
                client.birth = None

    def deliver(self) -> None:
        for client in self.clients:
            client.check()
        super().deliver()

    def fault(self) -> None:
        if not self.faulty:
            return
        draw = self.random.random()
        client = self.random.choice(self.clients)
        if draw < 0.2:
            client.crash()
            self.at(self.random.randrange(1_000, 30_000), client.start)
        elif draw < 0.5:
            client.leave()
            self.at(self.random.randrange(1_000, 20_000), client.start)
        elif draw < 0.57:
            client.stall()
        elif draw < 0.68:
            self.coordinator.now_ms = self.now_ms
            self.coordinator.restart()
            self.deliver()
        elif draw < 0.77:
            self.partitions = min(self.partitions + 1, PARTITIONS_MAX)
            self.coordinator.set_topics(**{TOPIC: self.partitions, "other": 3})
        else:
            self.coordinator.refuse_next = self.random.choice(
                [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]
            )
        self.at(self.random.randrange(2_000, 10_000), self.fault)

    def run(self) -> None:
        for client in self.clients:
            self.at(self.random.randrange(0, 30_000), client.start)
        self.at(5_000, self.fault)
        self.run_until(120_000)
        # All heals, then one dies for good.
        self.faulty = False
        self.coordinator.refuse_next = None
        dead = self.random.choice(self.clients)
        dead.crash()
        dead.is_dead = True
        self.run_until(self.now_ms + 40_000 + SESSION_MS + 2 * REBALANCE_MS + JOIN_TIMEOUT_MS)
        self._check_living()
        if self.checker.classic is None:
            # Nothing else happens that would make the group look at its topics.
            self.partitions += 1
            self.coordinator.set_topics(**{TOPIC: self.partitions, "other": 3})
            self.run_until(self.now_ms + 30_000)
            self._check_living()
        self.run_until(self.now_ms + 60_000)
        wanted = {(p, offset) for p in range(self.partitions) for offset in range(RECORDS)}
        if missing := wanted - self.checker.processed:
            raise ViolationError(f"G4: never processed: {sorted(missing)[:5]}")

    def _check_living(self) -> None:
        owned = sorted(p for client in self.clients if client.is_up for p in client.held)
        if owned != list(range(self.partitions)):
            raise ViolationError(f"G5: the living own {owned} of {self.partitions}")


class Client(FaultyClient):
    """A client of either protocol."""

    world: World

    def __init__(self, world: World, name: str, *, static: bool) -> None:
        super().__init__()
        self.world = world
        self.name = name
        self.instance_id = "i" if static else None
        self.is_dead = False
        self.arrived_ms = 0
        self.member_id = ""
        self.epoch = 0
        self.held: Held = set()
        self.birth: int | None = None
        self.positions: dict[int, int] = {}

    def begin(self) -> None:
        raise NotImplementedError

    def goodbye(self) -> Callable[[Any], Any]:
        raise NotImplementedError

    def start(self) -> None:
        # Of a static member's two clients one is up at a time, as its operator sees to.
        twin = any(
            client.is_up and client.instance_id is not None and client is not self
            for client in self.world.clients
        )
        if not self.is_up and not self.is_dead and not (twin and self.instance_id is not None):
            self.is_up = True
            self.life += 1
            self.let_go()
            self.begin()

    def crash(self) -> None:
        self.is_up = False
        self.life += 1
        self.let_go()

    def leave(self) -> None:
        if self.is_up:
            operate = self.goodbye()
            self.let_go()
            self.send(operate, lambda _response: None)
            self.crash()

    def stall(self) -> None:
        """Stop for a while, perhaps for longer than the session, and continue as if nothing
        happened.
        """
        if self.is_up and self.held:
            self.later(self.world.random.randrange(5_000, 25_000), lambda: self.work(self.resume))

    def resume(self) -> None:
        raise NotImplementedError

    def let_go(self) -> None:
        self.held = set()
        self.positions = {}

    def check(self) -> None:
        if self.is_up:
            self.world.checker.holds(self.member_id, self.birth, self.held)

    def hold(self, told: Held) -> None:
        """Hold the assigned partitions, and forget the position in others."""
        self.held = told
        self.birth = self.world.checker.births.get(self.member_id)
        self.positions = {p: o for p, o in self.positions.items() if p in told}

    # Requests

    def send(self, operate: Callable[[Any], Any], answer: Callable[[Any], None]) -> None:
        """Carries a request to the coordinator, sometimes twice, and its reply back."""
        world = self.world
        world.sequence += 1
        token, life = world.sequence, self.life
        delay_ms = world.delay_ms()
        if delay_ms is None:
            return
        self.arrived_ms = max(self.arrived_ms + 1, world.now_ms + delay_ms)
        repeats = world.faulty and world.random.random() < 0.05

        def arrive() -> None:
            # A client that has come back uses another connection.
            if self.life not in (life, life + 1):
                return
            world.waiting[token] = answer
            world.coordinator.now_ms = world.now_ms
            for _ in range(2 if repeats else 1):
                operate(token)
                world.deliver()

        world.at(self.arrived_ms - world.now_ms, arrive)

    def ask(
        self,
        operate: Callable[[Any], Any],
        answer: Callable[[Any], None],
        timed_out: Callable[[], None],
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """One request at a time: an answer counts if nothing has moved on since."""
        is_current = self.next_step()

        def arrives(token: Any) -> None:
            # After a timeout its connection is closed, with the requests in progress on it.
            if is_current():
                operate(token)

        self.send(arrives, lambda response: answer(response) if is_current() else None)
        self.world.at(timeout_ms, lambda: timed_out() if is_current() else None)

    def do(self, operation: str, *args: Any, token: Any) -> Any:
        coordinator = self.world.coordinator
        return coordinator.do(getattr(coordinator.shard, operation), *args, token=token)

    # Working

    def work(self, then: Callable[[], None]) -> None:
        """Read on: look up where to begin, process a few records, commit them."""
        fresh = sorted(self.held - self.positions.keys())
        if fresh:
            self.fetch(fresh, then)
            return
        moved: dict[tuple[str, int], int] = {}
        for partition in sorted(self.held):
            start = self.positions[partition]
            end = min(start + self.world.random.randrange(0, 4), RECORDS)
            self.world.checker.processed.update((partition, o) for o in range(start, end))
            self.positions[partition] = end
            moved[TOPIC, partition] = end
        if not moved:
            then()
            return
        self.commit(moved, then)

    def fetch(self, fresh: list[int], then: Callable[[], None]) -> None:
        request: OffsetFetchRequest.OffsetFetchRequestGroup = fetch_request(TOPIC, *fresh)
        coordinator, checker = self.world.coordinator, self.world.checker

        def operate(token: Any) -> None:
            response = coordinator.do(
                lambda token: coordinator.shard.fetch_offsets(
                    request, require_stable=True, token=token
                ),
                token=token,
            )
            for part in response.topics[0].partitions:
                checker.fetched(part.partition_index, part.committed_offset)

        def fetched(response: Any) -> None:
            for part in response.topics[0].partitions:
                if part.partition_index in self.held:
                    self.positions[part.partition_index] = max(part.committed_offset, 0)
            self.work(then)

        self.ask(operate, fetched, then)

    def commit(self, moved: dict[tuple[str, int], int], then: Callable[[], None]) -> None:
        request = commit_request(
            moved,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id_or_member_epoch=self.epoch,
        )
        request.topics[0].topic_id = topic_id(TOPIC)
        member_id, checker = self.member_id, self.world.checker
        coordinator = self.world.coordinator

        def operate(token: Any) -> None:
            before = len(coordinator.log)
            response = self.do("commit_offsets", request, 9, coordinator.now_ms, token=token)
            if not code(response):
                checker.committed(member_id, {partition for _, partition in moved})
            elif len(coordinator.log) > before:
                raise ViolationError("G3: refused and written")

        def committed(response: Any) -> None:
            if code(response):
                # What was processed and not committed is read again.
                self.positions = {}
            then()

        self.ask(operate, committed, then)


class ConsumerClient(Client):
    """A consumer: heartbeats give it its assignment; it confirms what it has revoked."""

    def begin(self) -> None:
        self.member_id = f"{self.name}-{self.life}"
        self.join()

    def join(self) -> None:
        self.epoch = 0
        self.let_go()
        self.heartbeat(whole=True)

    def request(self, *, whole: bool) -> ConsumerGroupHeartbeatRequest:
        held = ConsumerGroupHeartbeatRequest.TopicPartitions
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            topic_partitions=[held(topic_id=topic_id(TOPIC), partitions=sorted(self.held))]
            if self.held
            else [],
        )
        if whole:
            request.rebalance_timeout_ms = REBALANCE_MS
            if self.name == "n2":
                request.subscribed_topic_regex = "^t+$"
                request.subscribed_topic_names = []
            else:
                request.subscribed_topic_names = [TOPIC]
        return request

    def goodbye(self) -> Callable[[Any], Any]:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=-1 if self.instance_id is None else -2,
            instance_id=self.instance_id,
        )
        return self.operation(request)

    def operation(self, request: ConsumerGroupHeartbeatRequest) -> Callable[[Any], Any]:
        caller = Caller(self.name, version=1)
        return lambda token: self.do(
            "consumer_heartbeat", request, caller, "", self.world.coordinator.now_ms, token=token
        )

    def resume(self) -> None:
        self.heartbeat()

    def heartbeat(self, *, whole: bool = False) -> None:
        request = self.request(whole=whole)
        # An answer that was lost may have said anything: the next request says everything.
        self.ask(self.operation(request), self.beaten, lambda: self.heartbeat(whole=True))

    def beaten(self, response: Any) -> None:
        error = code(response)
        if error in RETRIABLE:
            self.later(100, lambda: self.heartbeat(whole=True))
        elif error is ErrorCode.UNRELEASED_INSTANCE_ID:
            self.later(1_000, self.join)
        elif error:
            self.join()
        else:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.take(response.assignment)
            else:
                pause_ms = self.world.random.randrange(200, HEARTBEAT_MS)
                self.work(lambda: self.later(pause_ms, self.heartbeat))

    def take(self, assignment: Any) -> None:
        """Revoke after a while, so that others may look, take at once, and confirm."""
        told = {p for topic in assignment.topic_partitions for p in topic.partitions}
        if self.held <= told:
            self.hold(told)
            self.work(self.heartbeat)
            return

        def give_up() -> None:
            self.hold(told)
            self.heartbeat()

        self.later(self.world.random.randrange(0, 2_000), give_up)


class ClassicClient(Client):
    """Joins and syncs; a leader assigns. A cooperative one keeps what it has meanwhile."""

    def __init__(self, world: World, name: str, *, static: bool, cooperative: bool) -> None:
        super().__init__(world, name, static=static)
        self.cooperative = cooperative

    def begin(self) -> None:
        self.member_id = ""
        self.epoch = -1
        self.join()

    def goodbye(self) -> Callable[[Any], Any]:
        member = LeaveGroupRequest.MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id
        )
        request = LeaveGroupRequest(group_id="g", members=[member])
        if self.instance_id is not None:
            return lambda _token: None  # static members just go
        return lambda token: self.do(
            "leave_group", request, self.world.coordinator.now_ms, token=token
        )

    def join(self) -> None:
        if not self.cooperative:
            self.let_go()
        subscription = ConsumerProtocolSubscription(
            topics=[TOPIC],
            generation_id=self.epoch,
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(
                    topic=TOPIC, partitions=sorted(self.held)
                )
            ]
            if self.held
            else [],
        )
        request = join_request(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocols=["cooperative-sticky" if self.cooperative else "range"],
            metadata=b"\0\3" + bytes(subscription.encode(3)),
        )
        fresh = f"{self.world.random.getrandbits(32):x}"
        caller = Caller(self.name, version=9)
        self.ask(
            lambda token: self.do(
                "join_group",
                request,
                caller,
                fresh,
                self.world.coordinator.now_ms,
                token=token,
            ),
            self.joined,
            self.join,
            JOIN_TIMEOUT_MS,
        )

    def failed(self, error: ErrorCode) -> None:
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            self.let_go()
            self.epoch = -1
            if error is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
        self.later(100, self.join)

    def joined(self, response: Any) -> None:
        error = code(response)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif error:
            self.failed(error)
        else:
            self.member_id = response.member_id
            self.epoch = response.generation_id
            self.sync(response)

    def shares(self, joined: Any) -> dict[str, Held]:
        """Return a share for each member, without what another member still has."""
        claims: dict[int, tuple[int, str]] = {}
        members = sorted(member.member_id for member in joined.members)
        for member in joined.members:
            told = embedded_protocol.read_subscription(member.metadata)
            for topic in told.owned_partitions:
                for partition in topic.partitions:
                    claim = (told.generation_id, member.member_id)
                    claims[partition] = max(claims.get(partition, claim), claim)
        shares: dict[str, Held] = {member: set() for member in members}
        for partition in range(self.world.partitions):
            wanted = members[partition % len(members)]
            _, owner = claims.get(partition, (0, wanted))
            if owner == wanted:
                shares[wanted].add(partition)
        return shares

    def sync(self, joined: Any) -> None:
        shares: dict[str, Held] = {}
        if joined.members and not joined.skip_assignment:
            shares = self.shares(joined)
        image = self.world.coordinator.image
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member,
                    assignment=embedded_protocol.write_assignment(
                        {topic_id(TOPIC): frozenset(share)}, image, 3
                    ),
                )
                for member, share in shares.items()
            ],
        )
        self.ask(
            lambda token: self.do(
                "sync_group", request, self.world.coordinator.now_ms, token=token
            ),
            self.synced,
            self.join,
            JOIN_TIMEOUT_MS,
        )

    def synced(self, response: Any) -> None:
        if error := code(response):
            self.failed(error)
            return
        told = partitions_in(response.assignment)
        given_up = self.held - told
        self.hold(told)
        if given_up:
            self.join()
        else:
            self.work(self.heartbeat)

    def resume(self) -> None:
        self.heartbeat()

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id="g",
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self.ask(
            lambda token: self.do("heartbeat", request, self.world.coordinator.now_ms, token=token),
            self.beaten,
            self.heartbeat,
        )

    def beaten(self, response: Any) -> None:
        error = code(response)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        elif error in RETRIABLE:
            self.later(100, self.heartbeat)
        elif error:
            self.failed(error)
        else:
            pause_ms = self.world.random.randrange(200, HEARTBEAT_MS)
            self.later(pause_ms, lambda: self.work(self.heartbeat))
