"""Groups of a simulation: their topic of offsets, their members, and what must hold at the end."""

from typing import Final

from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC
from barnabas.testing.simulation.classic_members import ClassicMember
from barnabas.testing.simulation.consumer_members import ConsumerMember
from barnabas.testing.simulation.group_members import GroupLedger, GroupMember
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_format import CONSUMER_GROUPS_SINCE
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.topic_creation import TopicCreation, internal_topic

_CLIENT_ID: Final = 34_000
_CONSUMER_NUMBER: Final = 50_000
_CLASSIC_NUMBER: Final = 51_000
_END_AFTER_MS: Final = 27_000


class GroupWorkload:
    """Members with the consumer protocol and with the classic one, in one group or in two."""

    def __init__(
        self, cluster: SimCluster, topic: str, options: SeedOptions, invariants: PartitionInvariants
    ) -> None:
        self._cluster = cluster
        self._options = options
        consumers = GroupLedger("consumers", topic, invariants, cluster)
        classics = (
            consumers
            if options.is_group_mixed
            else GroupLedger("classic consumers", topic, invariants, cluster)
        )
        has_protocol = options.metadata_version >= CONSUMER_GROUPS_SINCE
        self.members: list[GroupMember] = [
            ConsumerMember(cluster, _CONSUMER_NUMBER + number, consumers)
            for number in range(options.members if has_protocol else 0)
        ]
        self.members += [
            ClassicMember(cluster, _CLASSIC_NUMBER + number, classics)
            for number in range(options.classic_members)
        ]

    def start(self) -> None:
        """Create the topic of offsets, then start the members."""
        topic = internal_topic(OFFSETS_TOPIC, self._options)
        TopicCreation(self._cluster, _CLIENT_ID, [topic], self._start_members)

    def _start_members(self) -> None:
        for member in self.members:
            member.start()

    def stop(self) -> None:
        """Let no member leave any longer, and none send anything at the end."""
        for member in self.members:
            member.stop()
        self._cluster.world.after(_END_AFTER_MS * 1000, self._end_members)

    def _end_members(self) -> None:
        for member in self.members:
            member.is_over = True

    def check_end(self) -> None:
        """Check G1 and G5."""
        wanted = list(range(self._options.partitions))
        for name in {member.ledger.name: None for member in self.members}:
            members = [member for member in self.members if member.ledger.name == name]
            owned = sorted(number for member in members for number in member.owned)
            errors = [member.errors for member in members]
            what = f"the members of {name} own {owned}, of {len(wanted)} partitions: {errors}"
            require(owned == wanted, "G1", what)
