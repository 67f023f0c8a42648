"""A leader's knowledge of the other replicas in its epoch: how far they are, when they fetched.

Source: `LeaderState` of Kafka.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.cluster.quorum.raft_state import Progress
from barnabas.cluster.quorum.voters import ReplicaKey, VoterSet

OBSERVER_SESSION_MS: Final = 300_000
"""An observer that does not fetch for this time is forgotten."""


class QuorumProgress:
    """The progress of voters by node id, and of observers by key; `local` is the leader."""

    def __init__(self, local: ReplicaKey, voters: Iterable[ReplicaKey] = (), now_ms: int = -1):
        self._local = local
        self._voters = {key.id: Progress(fetched_ms=now_ms) for key in voters}
        self._observers: dict[ReplicaKey, Progress] = {}

    def of_voter(self, voter_id: int) -> Progress:
        """Return the progress of a voter; changes of it are kept."""
        return self._voters.setdefault(voter_id, Progress())

    def of_observer(self, key: ReplicaKey) -> Progress:
        """Return the progress of an observer; changes of it are kept."""
        return self._observers.setdefault(key, Progress())

    def follow(self, voters: VoterSet, now_ms: int) -> None:
        """Take over the progress of observers that became voters, and the other way round."""
        for key in voters.replica_keys:
            if key.id not in self._voters:
                progress = self._voters[key.id] = self._observers.pop(key, Progress())
                progress.fetched_ms = max(progress.fetched_ms, now_ms)
        for voter_id in self._voters.keys() - voters.voters.keys() - {self._local.id}:
            del self._voters[voter_id]

    def known(self, key: ReplicaKey, voters: VoterSet) -> Progress:
        """Return the progress of any replica; unknown values are -1."""
        if voters.is_voter(key):
            return self._voters.get(key.id, Progress())
        return self._observers.get(key, Progress())

    def observers(self, now_ms: int) -> list[ReplicaKey]:
        """Return the observers that have fetched within five minutes; forget the others."""
        oldest = now_ms - OBSERVER_SESSION_MS
        self._observers = {k: p for k, p in self._observers.items() if p.fetched_ms >= oldest}
        return sorted(self._observers, key=lambda key: (key.id, key.directory_id))

    def successors(self, voters: VoterSet) -> list[ReplicaKey]:
        """Return the other voters, the most caught-up first."""
        others = [key for key in voters.replica_keys if key.id != self._local.id]
        return sorted(others, key=lambda key: -self.known(key, voters).end_offset)

    def silent(self, voters: VoterSet, since_ms: int) -> list[int]:
        """Return the other voters that have not fetched after `since_ms`, or never."""
        others = (key for key in voters.replica_keys if key.id != self._local.id)
        return [
            key.id
            for key in others
            if (progress := self.of_voter(key.id)).end_offset < 0 or progress.fetched_ms <= since_ms
        ]

    def majority_end_offset(self, voters: VoterSet) -> int:
        """Return the offset below which a majority of the voters has all records durably."""
        ends = sorted(
            (self.known(key, voters).end_offset for key in voters.replica_keys), reverse=True
        )
        return ends[voters.majority - 1]

    def majority_fetched_ms(self, voters: VoterSet) -> int:
        """Return the time since which fewer than a majority, with the leader, have fetched."""
        needed = voters.majority - (1 if voters.is_voter(self._local) else 0)
        others = (key for key in voters.replica_keys if key.id != self._local.id)
        fetched = sorted((self.of_voter(key.id).fetched_ms for key in others), reverse=True)
        return fetched[needed - 1]
