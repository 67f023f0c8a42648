"""A simulated cluster around the controller's decisions on partitions.

Brokers stop, lose their page cache, lose log directories and come back; leaders write, followers
copy, and AlterPartition requests arrive late or twice. Metadata takes effect at once. After each
batch of records these rules must hold; a RuleBrokenError begins with the name of one:

    P4  a leader that was not elected uncleanly has all committed records
    LD  a leader is active and in sync, and its directory is online
    FB  no fenced broker is in sync, except as the last member
    MB  members of ISR and ELR are replicas, and in one of the two
    IS  without ELR, the ISR is never empty
    PE  a new ISR builds on the current partition epoch
    UE  an unclean election is allowed, and leaves no other replica in sync or eligible
    RE  a reassignment ends with all added replicas in sync, in a new leader epoch
    L   after all faults, a partition with a member in sync or eligible has a leader

    World(seed, has_elr=True).run(steps=300)
"""

import random
from collections.abc import Callable, Collection, Sequence

import attrs

from barnabas.cluster.controller.leader_elections import PREFERRED, UNCLEAN
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.cluster.metadata.image import (
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
)
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.rare_states import RareState, RareStates
from tests.cluster.states import Cluster, registration, uuid

BROKERS, PARTITIONS, REPLICAS = range(1, 5), range(3), 3
RECOVERING = 1


class RuleBrokenError(AssertionError):
    """A rule that does not hold."""


@attrs.define
class Broker:
    """The process of a broker: its log of each partition, as a list of record numbers."""

    id: int
    directories: tuple[Uuid, ...]
    incarnation: int = 0
    is_up: bool = False
    stopped_cleanly: bool = False
    failed: set[Uuid] = attrs.field(factory=set[Uuid])
    logs: dict[int, list[int]] = attrs.field(factory=lambda: {n: [] for n in PARTITIONS})


@attrs.frozen
class Proposal:
    """An ISR that a leader has proposed, and that counts in its high watermark until answered."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class World:
    """One run; everything in it follows from the seed."""

    def __init__(self, seed: int, *, has_elr: bool) -> None:
        self.random = random.Random(f"{seed} {has_elr}")
        self.has_elr = has_elr
        self.cluster = Cluster(brokers=0)
        self.committed: dict[int, list[int]] = {n: [] for n in PARTITIONS}
        self.pending: dict[int, Proposal] = {}
        self.network: list[AlterPartitionRequest] = []
        self.next_record = 0
        self.counters: dict[str, int] = {}
        self.rare = RareStates()
        level = FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)
        if has_elr:
            self.cluster.replay(self.cluster.controller.bootstrap([level]).records)
        self.brokers = {
            each: Broker(each, (uuid(900 + 2 * each), uuid(901 + 2 * each))) for each in BROKERS
        }
        for broker in self.brokers.values():
            self.start(broker)
        self.cluster.create(
            "t",
            partitions=len(PARTITIONS),
            replicas=REPLICAS,
            min_insync_replicas=str(self.random.choice([1, 2, 2])),
            unclean_leader_election_enable=self.random.choice(["false", "true"]),
        )
        for broker in self.brokers.values():
            self.assign_directories(broker)

    @property
    def image(self) -> MetadataImage:
        return self.cluster.image

    def partition(self, number: int) -> PartitionImage:
        return self.image.topics_by_name["t"].partitions[number]

    def run(self, steps: int) -> None:
        """Take random steps, then end all faults and check that every partition recovers."""
        for _ in range(steps):
            self.step()
        self.heal()

    def step(self) -> None:
        """Take one random step."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (20, self.write),
            (20, self.copy),
            (14, self.propose),
            (14, self.deliver),
            (4, self.stop),
            (4, self.fence),
            (12, self.return_to_service),
            (2, self.fail_directory),
            (4, self.elect),
            (3, self.reassign),
            (1, self.alter_config),
        ]
        (action,) = self.random.choices(
            [action for _, action in actions], [weight for weight, _ in actions]
        )
        action()

    # Data

    def leader(self, number: int) -> Broker | None:
        """Return the broker that leads the partition, when its process is the registered one."""
        broker = self.brokers.get(self.partition(number).leader)
        if broker is None or not broker.is_up:
            return None
        known = self.image.brokers[broker.id]
        return broker if known.incarnation_id == uuid(broker.incarnation) else None

    def maximal_isr(self, number: int) -> set[int]:
        return {*self.partition(number).isr, *self.pending_isr(number)}

    def pending_isr(self, number: int) -> tuple[int, ...]:
        """Return the ISR that the leader has proposed, while the partition is unchanged."""
        partition, pending = self.partition(number), self.pending.get(number)
        if pending is None or (pending.leader_epoch, pending.partition_epoch) != (
            partition.leader_epoch,
            partition.partition_epoch,
        ):
            return ()
        return pending.isr

    def write(self) -> None:
        number = self.random.choice(PARTITIONS)
        leader = self.leader(number)
        if leader is not None:
            self.next_record += 1
            leader.logs[number].append(self.next_record)
            self.commit(number)

    def copy(self) -> None:
        """Let a follower copy the log of its leader."""
        number = self.random.choice(PARTITIONS)
        leader = self.leader(number)
        follower = self.brokers[self.random.choice(self.partition(number).replicas)]
        if leader is not None and self.is_reachable(follower, number):
            follower.logs[number] = list(leader.logs[number])
            self.commit(number)

    def is_reachable(self, broker: Broker, number: int) -> bool:
        directory = self.partition(number).directory(broker.id)
        return broker.is_up and directory not in broker.failed

    def commit(self, number: int) -> None:
        """Move the high watermark: what all of the maximal ISR has, unless the ISR is too small."""
        leader = self.leader(number)
        if leader is None or len(self.partition(number).isr) < self.min_isr(number):
            return
        log = leader.logs[number]
        ends = [common(log, self.brokers[each].logs[number]) for each in self.maximal_isr(number)]
        if min(ends) > len(self.committed[number]):
            self.committed[number] = log[: min(ends)]

    def min_isr(self, number: int) -> int:
        wanted = int(self.image.topic_config("t")["min.insync.replicas"])
        return min(wanted, len(self.partition(number).replicas))

    # AlterPartition

    def propose(self) -> None:
        """Let a leader propose the replicas that have its whole log as the ISR."""
        number = self.random.choice(PARTITIONS)
        leader, partition = self.leader(number), self.partition(number)
        if leader is None or self.pending_isr(number):
            return
        isr = [
            each
            for each in partition.replicas
            if self.brokers[each].logs[number] == leader.logs[number]
            and self.image.brokers[each].is_active
        ]
        if tuple(isr) == partition.isr:
            return
        self.pending[number] = Proposal(
            partition.leader_epoch, partition.partition_epoch, tuple(isr)
        )
        kind = AlterPartitionRequest
        data = kind.PartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                kind.BrokerState(broker_id=each, broker_epoch=self.image.brokers[each].epoch)
                for each in isr
            ],
        )
        topic = kind.TopicData(topic_id=self.image.topics_by_name["t"].id, partitions=[data])
        epoch = self.image.brokers[leader.id].epoch
        self.network.append(kind(broker_id=leader.id, broker_epoch=epoch, topics=[topic]))

    def deliver(self) -> None:
        """Deliver one request; it may arrive again later."""
        if not self.network:
            return
        index = self.random.randrange(len(self.network))
        request = self.network[index]
        if self.random.random() < 0.7:
            del self.network[index]
        data = request.topics[0].partitions[0]
        before = self.partition(data.partition_index)
        built_on = data.partition_epoch
        try:
            result = self.cluster.controller.handle(request, 3)
        except KafkaError as error:
            self.count(error.code.name)
            return
        self.rare.answered(result.response)
        if result.records and built_on != before.partition_epoch:
            raise RuleBrokenError(
                f"PE: an ISR built on partition epoch {built_on} changes {before}"
            )
        self.count(f"alter {result.response.topics[0].partitions[0].error_code}")
        self.apply(result.records, proposed={each.broker_id for each in data.new_isr_with_epochs})

    # Brokers

    def start(self, broker: Broker) -> None:
        """Start a process of the broker, and register it; its directories are mended."""
        known = self.image.brokers.get(broker.id)
        broker.incarnation = 1000 + self.cluster.controller.next_offset
        broker.is_up, broker.failed = True, set()
        request = registration(
            broker.id,
            *broker.directories,
            incarnation=broker.incarnation,
            previous_epoch=known.epoch if known is not None and broker.stopped_cleanly else -1,
        )
        if known is not None:
            self.cluster.controller.sessions.remove(SessionKey(known.id, known.epoch))
        self.apply(self.cluster.controller.register_broker(request).records)
        self.unfence(broker)

    def unfence(self, broker: Broker) -> None:
        self.heartbeat(broker)
        self.assign_directories(broker)

    def heartbeat(self, broker: Broker, **fields: object) -> None:
        request = self.cluster.heartbeat(broker.id, offline_log_dirs=list(broker.failed), **fields)
        self.apply(self.cluster.controller.broker_heartbeat(request).records)

    def assign_directories(self, broker: Broker) -> None:
        """Report the directories of the replicas that have none yet."""
        topic = self.image.topics_by_name.get("t")
        kind = AssignReplicasToDirsRequest
        for number, partition in topic.partitions.items() if topic is not None else ():
            replicas = partition.replicas
            if broker.id in replicas and partition.directory(broker.id) == DIRECTORY_UNASSIGNED:
                data = kind.TopicData(
                    topic_id=topic.id if topic else uuid(0),
                    partitions=[kind.PartitionData(partition_index=number)],
                )
                online = [each for each in broker.directories if each not in broker.failed]
                chosen = kind.DirectoryData(id=self.random.choice(online), topics=[data])
                request = kind(
                    broker_id=broker.id,
                    broker_epoch=self.image.brokers[broker.id].epoch,
                    directories=[chosen],
                )
                self.apply(self.cluster.controller.assign_replicas_to_dirs(request).records)

    def stop(self) -> None:
        """End a process: after a controlled shutdown, by a kill, or with its page cache."""
        broker = self.brokers[self.random.choice(BROKERS)]
        if not broker.is_up:
            return
        way = self.random.choice(["clean", "kill", "power" if self.has_elr else "kill"])
        self.count(way)
        broker.stopped_cleanly = way == "clean"
        if way == "clean" and not self.image.brokers[broker.id].fenced:
            self.heartbeat(broker, want_shut_down=True)
        broker.is_up = False
        if way == "power":
            for log in broker.logs.values():
                del log[self.random.randint(0, len(log)) :]

    def fence(self) -> None:
        """Fence a broker whose session has ended, a few partitions at a time."""
        broker = self.image.brokers[self.random.choice(BROKERS)]
        while not self.image.brokers[broker.id].fenced:
            self.apply(self.cluster.controller.fence_broker(broker.id, 1).records)
            if self.random.random() < 0.3:
                return

    def return_to_service(self) -> None:
        broker = self.brokers[self.random.choice(BROKERS)]
        if not broker.is_up:
            self.start(broker)
        elif self.image.brokers[broker.id].fenced:
            self.unfence(broker)

    def fail_directory(self) -> None:
        broker = self.brokers[self.random.choice(BROKERS)]
        if broker.is_up and not broker.failed and not self.image.brokers[broker.id].fenced:
            self.count("directory failed")
            failed = self.random.choice(broker.directories)
            if any(
                partition.leader == broker.id and partition.directory(broker.id) == failed
                for partition in map(self.partition, PARTITIONS)
            ):
                self.rare.reached(RareState.DIRECTORY_FAILED_WHILE_LEADING)
            broker.failed = {failed}
            self.heartbeat(broker)

    # Administration

    def elect(self) -> None:
        kind = ElectLeadersRequest
        controller = self.cluster.controller
        way = self.random.randrange(4)
        if way == 0:
            self.apply(controller.balance_leaders(100).records)
        elif way == 1:
            self.apply(controller.elect_uncleanly(100).records)
        else:
            topic = kind.TopicPartitions(topic="t", partitions=[self.random.choice(PARTITIONS)])
            election = PREFERRED if way == 2 else UNCLEAN
            request = kind(election_type=election, topic_partitions=[topic])
            is_asked = way == 3
            self.apply(controller.elect_leaders(request).records, is_unclean_asked=is_asked)

    def reassign(self) -> None:
        kind = AlterPartitionReassignmentsRequest
        target = self.random.sample(list(BROKERS), self.random.choice([2, 3, 3]))
        replicas = None if self.random.random() < 0.2 else target
        number = self.random.choice(PARTITIONS)
        partition = kind.ReassignablePartition(partition_index=number, replicas=replicas)
        topic = kind.ReassignableTopic(name="t", partitions=[partition])
        result = self.cluster.controller.alter_partition_reassignments(kind(topics=[topic]))
        self.apply(result.records, is_cancelled=replicas is None, is_replaced=True)

    def alter_config(self) -> None:
        kind = IncrementalAlterConfigsRequest
        name, values = self.random.choice(
            [
                ("min.insync.replicas", ["1", "2"]),
                ("unclean.leader.election.enable", ["false", "true"]),
            ]
        )
        config = kind.AlterableConfig(
            name=name, config_operation=0, value=self.random.choice(values)
        )
        resource = kind.AlterConfigsResource(
            resource_type=RESOURCE_TOPIC, resource_name="t", configs=[config]
        )
        request = kind(resources=[resource])
        self.apply(self.cluster.controller.incremental_alter_configs(request).records)

    # Rules

    def apply(
        self,
        records: Sequence[object],
        *,
        is_cancelled: bool = False,
        is_replaced: bool = False,
        is_unclean_asked: bool = False,
        proposed: Collection[int] = (),
    ) -> None:
        """Replay a batch of records, and check the state after it."""
        topic = self.image.topics_by_name.get("t")
        before = dict(topic.partitions) if topic is not None else {}
        allows_unclean = is_unclean_asked or self.allows_unclean() or is_cancelled
        self.rare.committed(self.cluster.replay(list(records)))  # pyright: ignore
        for number, old in before.items():
            new = self.partition(number)
            if new != old:
                if new.leader not in proposed:
                    self.check_election(number, old, new, allows_unclean=allows_unclean)
                self.check_change(old, new, is_replaced=is_replaced)
        for number in before:
            self.check(number)

    def allows_unclean(self) -> bool:
        return self.image.topic_config("t").get("unclean.leader.election.enable") == "true"

    def check_change(self, old: PartitionImage, new: PartitionImage, *, is_replaced: bool) -> None:
        if {*old.replicas} - {*new.replicas} and new.leader_epoch <= old.leader_epoch:
            raise RuleBrokenError(
                f"RE: a replica was removed in the same leader epoch: {old} {new}"
            )
        completed = old.adding_replicas and not new.adding_replicas and not is_replaced
        is_unclean = new.leader_recovery_state == RECOVERING and new.leader != old.leader
        if completed and not is_unclean and not {*old.adding_replicas} <= {*new.isr}:
            raise RuleBrokenError(f"RE: a reassignment ended without an added replica: {old} {new}")

    def check_election(
        self, number: int, old: PartitionImage, new: PartitionImage, *, allows_unclean: bool
    ) -> None:
        """Check the election of a replica that was neither in sync nor eligible."""
        if len(new.isr) == 1 and not {*new.isr} <= {*old.isr, *old.elr} and new.leader == NO_LEADER:
            # A cancelled reassignment of which only added replicas were in sync.
            self.lose_records_outside_of(new.isr[0], number)
        if new.leader in (old.leader, NO_LEADER) or new.leader in (*old.isr, *old.elr):
            return
        self.count("unclean")
        if not allows_unclean and old.last_known_elr != (new.leader,):
            raise RuleBrokenError(f"UE: an unclean election that is not allowed: {old} {new}")
        if (new.isr, new.elr) != ((new.leader,), ()) or new.leader_recovery_state != RECOVERING:
            raise RuleBrokenError(f"UE: an unclean election with others in sync: {old} {new}")
        self.lose_records_outside_of(new.leader, number)

    def lose_records_outside_of(self, broker_id: int, number: int) -> None:
        """Note that an allowed unclean choice has lost the records that this replica lacks."""
        log = self.brokers[broker_id].logs[number]
        self.committed[number] = log[: common(log, self.committed[number])]

    def check(self, number: int) -> None:
        """Check one partition: its leader, ISR and ELR, and the records that the leader has."""
        partition = self.partition(number)
        leader = partition.leader
        if leader != NO_LEADER:
            broker = self.image.brokers[leader]
            if not broker.is_active or leader not in partition.isr:
                raise RuleBrokenError(
                    f"LD: a leader that is not active or not in sync: {partition}"
                )
            if not broker.has_online(partition.directory(leader)):
                raise RuleBrokenError(f"LD: a leader without its directory: {partition}")
        members = {*partition.isr, *partition.elr}
        if len(members) < len(partition.isr) + len(partition.elr):
            raise RuleBrokenError(f"MB: a replica in sync and eligible: {partition}")
        if not members <= {*partition.replicas}:
            raise RuleBrokenError(f"MB: a member that is not a replica: {partition}")
        if not self.has_elr and not partition.isr:
            raise RuleBrokenError(f"IS: an empty ISR: {partition}")
        for member in partition.isr:
            may_be_last = not self.has_elr or partition.leader_recovery_state == RECOVERING
            is_last = may_be_last and partition.isr == (member,) and leader == NO_LEADER
            if self.image.brokers[member].fenced and not is_last:
                raise RuleBrokenError(f"FB: a fenced broker in sync: {partition}")
        serving = self.leader(number)
        if serving is not None:
            committed = self.committed[number]
            if common(serving.logs[number], committed) < len(committed):
                raise RuleBrokenError(
                    f"P4: broker {leader} leads without committed records: {partition}"
                )

    def heal(self) -> None:
        """End all faults, and change the controller: no partition waits for an available leader."""
        self.network.clear()
        for broker in self.brokers.values():
            if not broker.is_up or broker.failed:
                broker.is_up, broker.stopped_cleanly = False, False
                self.start(broker)
            elif self.image.brokers[broker.id].fenced:
                self.unfence(broker)
        controller = self.cluster.controller
        controller.activate(self.image, controller.next_offset, 0)
        while controller.unfinished:
            self.apply(controller.finish_changes().records)
        for number in PARTITIONS:
            partition = self.partition(number)
            if partition.leader == NO_LEADER and (partition.isr or partition.elr):
                raise RuleBrokenError(f"L: no leader though a replica is in sync: {partition}")

    def count(self, name: str) -> None:
        self.counters[name] = self.counters.get(name, 0) + 1


def common(one: list[int], other: list[int]) -> int:
    """Return the length of the common start of two logs."""
    length = min(len(one), len(other))
    return next((index for index in range(length) if one[index] != other[index]), length)
