"""The quorum's voters, as control records of its log and its snapshots (KIP-853)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Self

import attrs

from barnabas.cluster.metadata.image import Endpoint
from barnabas.protocol.records.control_records import VotersRecord
from barnabas.protocol.types import ZERO_UUID, Uuid


@attrs.frozen(slots=True)
class ReplicaKey:
    """The key of a replica of the quorum's log: a node and its log directory (zero: unknown)."""

    id: int
    directory_id: Uuid = ZERO_UUID


class LeaderAddress(NamedTuple):
    """The leader of the quorum in an epoch, and its controller listener."""

    node_id: int
    epoch: int
    endpoint: Endpoint


@attrs.frozen(slots=True)
class Voter:
    """One voter: its key, its controller listeners, and the kraft.versions that it supports."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    kraft_version_min: int = 0
    kraft_version_max: int = 1


@attrs.frozen(slots=True)
class VoterSet:
    """The voters by node id."""

    voters: Mapping[int, Voter]

    @classmethod
    def of(cls, *voters: Voter) -> Self:
        """Return a set of these voters."""
        return cls({voter.key.id: voter for voter in voters})

    def __len__(self) -> int:
        return len(self.voters)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters.values())

    @property
    def majority(self) -> int:
        """The number of voters that a decision needs."""
        return len(self.voters) // 2 + 1

    def is_voter(self, key: ReplicaKey) -> bool:
        """True when the replica is a voter; an unknown directory id matches any.

        As `VoterSet.VoterNode#isVoter` in Kafka.
        """
        voter = self.voters.get(key.id)
        if voter is None:
            return False
        known = voter.key.directory_id
        return known == ZERO_UUID or known == key.directory_id

    @property
    def replica_keys(self) -> list[ReplicaKey]:
        """The keys of the voters, ordered by node id."""
        return [self.voters[voter_id].key for voter_id in sorted(self.voters)]

    def record(self) -> VotersRecord:
        """Return the control record of this set."""
        return VotersRecord(
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        VotersRecord.Endpoint(name=point.name, host=point.host, port=point.port)
                        for point in voter.endpoints
                    ],
                    kraft_version_feature=VotersRecord.KRaftVersionFeature(
                        min_supported_version=voter.kraft_version_min,
                        max_supported_version=voter.kraft_version_max,
                    ),
                )
                for voter in self.voters.values()
            ]
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> Self:
        """Return the set of a control record."""
        return cls.of(
            *(
                Voter(
                    ReplicaKey(voter.voter_id, voter.voter_directory_id),
                    tuple(Endpoint(p.name, p.host, p.port) for p in voter.endpoints),
                    voter.kraft_version_feature.min_supported_version,
                    voter.kraft_version_feature.max_supported_version,
                )
                for voter in record.voters
            )
        )


def static_voters(texts: Iterable[str], listener_name: str) -> VoterSet:
    """Return the voters of `controller.quorum.voters`, valid texts `id@host:port`.

    Their directories are unknown (kraft.version 0).
    """
    voters: list[Voter] = []
    for text in texts:
        node, _, address = text.strip().partition("@")
        host, _, port = address.rpartition(":")
        name = host.removeprefix("[").removesuffix("]")
        voters.append(Voter(ReplicaKey(int(node)), (Endpoint(listener_name, name, int(port)),)))
    return VoterSet.of(*voters)
