"""Consumers, a faulty network and a coordinator that dies, on one clock and one seed.

The consumers do what clients do: join, sync, heartbeat, read on from the committed offset, commit
what they have processed, join again on errors. Requests and replies are delayed and lost, clients
crash and come back, appends are refused, the coordinator restarts from its log. Checkers look at
what comes out, never at the shard's inside:

G1 one owner of a partition in a generation; G2 a look-up gives the last commit that was written,
and what was acked was written; G3 a commit of another generation changes nothing; G4 in the end
every record was processed; G5 a dead member's partitions move in time.
"""

from collections.abc import Callable
from typing import Any

import attrs

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.faulty_world import FaultyClient, FaultyWorld, ViolationError
from tests.coordinator.groups.group_harness import (
    Coordinator,
    commit_request,
    fetch_request,
    join_request,
)

PARTITIONS = 5
RECORDS = 30
SESSION_MS = 10_000
REBALANCE_MS = 15_000
HEARTBEAT_MS = 3_000
REQUEST_TIMEOUT_MS = 5_000
JOIN_TIMEOUT_MS = REBALANCE_MS + 10_000


@attrs.define
class Checker:
    """The guarantees that clients rely on."""

    owners: dict[tuple[int, int], str] = attrs.Factory(dict)
    generation: int = 0
    written: dict[int, int] = attrs.Factory(dict)
    written_generation: int = 0
    processed: set[tuple[int, int]] = attrs.Factory(set)

    def owned(self, generation: int, partition: int, member_id: str) -> None:
        owner = self.owners.setdefault((generation, partition), member_id)
        if owner != member_id:
            raise ViolationError(
                f"G1: {partition} of generation {generation}: {owner}, {member_id}"
            )

    def appended(self, record: Any) -> None:
        if hasattr(record.key, "partition"):
            self.written[record.key.partition] = record.value.offset
        elif record.value is not None:
            self.generation = self.written_generation = record.value.generation

    def joined(self, generation: int) -> None:
        self.generation = max(self.generation, generation)

    def restarted(self) -> None:
        # Generations that were not written are handed out again.
        self.generation = self.written_generation
        self.owners = {k: v for k, v in self.owners.items() if k[0] <= self.generation}

    def fetched(self, partition: int, offset: int) -> None:
        if self.written.get(partition, -1) != offset:
            raise ViolationError(
                f"G2: {partition} is {offset}, {self.written.get(partition)} written"
            )

    def committed(self, generation: int, written: bool) -> None:
        if not written:
            raise ViolationError("G2: acked and not written")
        if generation != self.generation:
            raise ViolationError(f"G3: committed in {generation}, present is {self.generation}")

    def refused(self, written: bool) -> None:
        if written:
            raise ViolationError("G3: refused and written")


class Simulation(FaultyWorld):
    """One seed's run; `run` raises ViolationError."""

    def __init__(self, seed: int, shard: type[GroupShard] = GroupShard) -> None:
        super().__init__(seed)
        self.checker = Checker()
        self.shard = shard
        settings = GroupSettings(initial_rebalance_delay_ms=self.random.choice([0, 500, 3000]))
        self.coordinator = Coordinator(settings, now_ms=0, appended=self.appended)
        self._install()
        self.clients = [
            Consumer(self, f"c{i}", static=self.random.random() < 0.3) for i in range(4)
        ]

    def _install(self) -> None:
        if self.shard is not GroupShard:
            self.coordinator.shard.__class__ = self.shard

    def appended(self, record: Any) -> None:
        self.checker.appended(record)

    # Network

    def send(self, operate: Callable[[int], Any], answer: Callable[[Any], None]) -> None:
        """Carry a request to the coordinator and its reply back."""
        self.sequence += 1
        token = self.sequence

        def arrive() -> None:
            self.waiting[token] = answer
            self.coordinator.now_ms = self.now_ms
            operate(token)
            self.deliver()

        delay_ms = self.delay_ms()
        if delay_ms is not None:
            self.at(delay_ms, arrive)

    def replied(self, response: Any) -> None:
        self.checker.joined(getattr(response, "generation_id", -1))

    # Running

    def fault(self) -> None:
        if not self.faulty:
            return
        draw = self.random.random()
        client = self.random.choice(self.clients)
        if draw < 0.25:
            client.crash()
            self.at(self.random.randrange(1_000, 30_000), client.start)
        elif draw < 0.4:
            client.leave()
            self.at(self.random.randrange(1_000, 10_000), client.start)
        elif draw < 0.6:
            self.coordinator.now_ms = self.now_ms
            self.coordinator.restart()
            self._install()
            self.checker.restarted()
            self.deliver()
        else:
            self.coordinator.refuse_next = self.random.choice(
                [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]
            )
        self.at(self.random.randrange(2_000, 12_000), self.fault)

    def run(self) -> None:
        for client in self.clients:
            self.at(self.random.randrange(0, 4_000), client.start)
        self.at(5_000, self.fault)
        self.run_until(90_000)
        # All heals, then one dies for good.
        self.faulty = False
        self.coordinator.refuse_next = None
        dead = self.random.choice(self.clients)
        dead.crash()
        dead.is_dead = True
        moved_by_ms = self.now_ms + 30_000 + SESSION_MS + REBALANCE_MS + JOIN_TIMEOUT_MS
        self.run_until(moved_by_ms)
        owned = sorted(p for c in self.clients if c.is_up for p in c.assigned)
        if owned != list(range(PARTITIONS)):
            raise ViolationError(f"G5: the living own {owned}")
        self.run_until(self.now_ms + 60_000)
        wanted = {(p, offset) for p in range(PARTITIONS) for offset in range(RECORDS)}
        if missing := wanted - self.checker.processed:
            raise ViolationError(f"G4: never processed: {sorted(missing)[:5]}")


class Consumer(FaultyClient):
    """A client with a member's life."""

    world: Simulation

    def __init__(self, world: Simulation, name: str, *, static: bool) -> None:
        super().__init__()
        self.world = world
        self.name = name
        self.instance_id = name if static else None
        self.is_dead = False
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.generation = -1
        self.assigned: list[int] = []
        self.positions: dict[int, int] = {}

    def start(self) -> None:
        if not self.is_up and not self.is_dead:
            self.is_up = True
            self.life += 1
            self.forget()
            self.join()

    def crash(self) -> None:
        self.is_up = False
        self.life += 1
        self.assigned = []

    def leave(self) -> None:
        if self.is_up:
            member = LeaveGroupRequest.MemberIdentity(
                member_id=self.member_id, group_instance_id=self.instance_id
            )
            request = LeaveGroupRequest(group_id="g", members=[member])
            shard = self.world.coordinator
            self.world.send(
                lambda token: shard.do(shard.shard.leave_group, request, shard.now_ms, token=token),
                lambda _response: None,
            )
            self.crash()

    def ask(
        self,
        operate: Callable[[int], Any],
        answer: Callable[[Any], None],
        timed_out: Callable[[], None],
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """One request at a time: an answer counts if nothing has moved on since."""
        is_current = self.next_step()
        self.world.send(operate, lambda response: answer(response) if is_current() else None)
        self.world.at(timeout_ms, lambda: timed_out() if is_current() else None)

    # Joining

    def join(self) -> None:
        self.assigned = []
        coordinator = self.world.coordinator
        request = join_request(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            # As while a group's members are upgraded one by one.
            protocols=["sticky"] if self.life % 2 else ["range", "sticky"],
        )
        fresh = f"{self.world.random.getrandbits(32):x}"
        self.ask(
            lambda token: coordinator.do(
                coordinator.shard.join_group,
                request,
                Caller(self.name, version=9),
                fresh,
                coordinator.now_ms,
                token=token,
            ),
            self.joined,
            self.join,
            JOIN_TIMEOUT_MS,
        )

    def failed(self, error: ErrorCode) -> None:
        """React to an error of the membership as a consumer does."""
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            self.forget()
        self.assigned = []
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
            self.generation = response.generation_id
            self.sync(response)

    def sync(self, joined: Any) -> None:
        members = sorted(member.member_id for member in joined.members)
        shares: dict[str, list[int]] = {member: [] for member in members}
        for partition in range(PARTITIONS if members and not joined.skip_assignment else 0):
            shares[members[partition % len(members)]].append(partition)
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member, assignment=bytes(share)
                )
                for member, share in shares.items()
            ],
        )
        coordinator = self.world.coordinator
        self.ask(
            lambda token: coordinator.do(
                coordinator.shard.sync_group, request, coordinator.now_ms, token=token
            ),
            self.synced,
            self.join,
            JOIN_TIMEOUT_MS,
        )

    def synced(self, response: Any) -> None:
        if error := code(response):
            self.failed(error)
            return
        self.assigned = list(response.assignment)
        for partition in self.assigned:
            self.world.checker.owned(self.generation, partition, self.instance_id or self.member_id)
        self.positions = {}
        self.fetch()

    # Working

    def fetch(self) -> None:
        coordinator = self.world.coordinator
        request = fetch_request("t", *self.assigned)
        self.ask(
            lambda token: (
                coordinator.do(
                    lambda token: coordinator.shard.fetch_offsets(
                        request, require_stable=True, token=token
                    ),
                    token=token,
                )
                and self.check_fetched(coordinator)
            ),
            self.fetched,
            self.join,
        )

    def check_fetched(self, coordinator: Coordinator) -> None:
        _, response = coordinator.replies[-1]
        for part in response.topics[0].partitions:
            self.world.checker.fetched(part.partition_index, part.committed_offset)

    def fetched(self, response: Any) -> None:
        for part in response.topics[0].partitions:
            self.positions[part.partition_index] = max(part.committed_offset, 0)
        self.work()

    def work(self) -> None:
        """Process a few records, commit them, heartbeat."""
        for partition in self.assigned:
            start = self.positions[partition]
            end = min(start + self.world.random.randrange(0, 4), RECORDS)
            self.world.checker.processed.update((partition, offset) for offset in range(start, end))
            self.positions[partition] = end
        if self.assigned:
            self.commit()
        else:
            self.heartbeat()

    def commit(self) -> None:
        coordinator, checker = self.world.coordinator, self.world.checker
        generation = self.generation
        request = commit_request(
            {("t", partition): self.positions[partition] for partition in self.assigned},
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id_or_member_epoch=generation,
        )

        def operate(token: int) -> None:
            before = len(coordinator.log)
            response = coordinator.do(
                coordinator.shard.commit_offsets, request, 9, coordinator.now_ms, token=token
            )
            written = any(
                coordinator.log[i][1] is not None for i in range(before, len(coordinator.log))
            )
            if code(response):
                checker.refused(written)
            else:
                checker.committed(generation, written)

        self.ask(operate, self.committed, self.join)

    def committed(self, response: Any) -> None:
        if error := code(response):
            self.failed(error)
        else:
            self.heartbeat()

    def heartbeat(self) -> None:
        coordinator = self.world.coordinator
        request = HeartbeatRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self.ask(
            lambda token: coordinator.do(
                coordinator.shard.heartbeat, request, coordinator.now_ms, token=token
            ),
            self.beaten,
            self.heartbeat,
        )

    def beaten(self, response: Any) -> None:
        if error := code(response):
            self.failed(error)
        else:
            self.later(self.world.random.randrange(200, HEARTBEAT_MS), self.work)


def code(response: Any) -> ErrorCode:
    if isinstance(response, ErrorCode):
        return response
    if hasattr(response, "topics"):
        return ErrorCode(response.topics[0].partitions[0].error_code)
    return ErrorCode(response.error_code)
