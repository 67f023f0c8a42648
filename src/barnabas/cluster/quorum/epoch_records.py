"""The control records with which a leader begins its epoch.

Source: `LeaderState.appendStartOfEpochControlRecords` of Kafka.
"""

from collections.abc import Iterable

from barnabas.cluster.quorum.voters import VoterSet
from barnabas.protocol.records.control_records import LeaderChangeMessage


def leader_change(leader_id: int, voters: VoterSet, granting: Iterable[int]) -> LeaderChangeMessage:
    """Return the first record of an epoch, in version 0 without directories as Kafka 4.3."""
    voter = LeaderChangeMessage.Voter
    return LeaderChangeMessage(
        leader_id=leader_id,
        voters=[voter(voter_id=key.id) for key in voters.replica_keys],
        granting_voters=[voter(voter_id=voter_id) for voter_id in sorted(granting)],
    )
