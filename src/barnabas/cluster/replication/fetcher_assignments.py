"""The fetchers of this broker: from which leader each partition is fetched.

`ReplicaManager.apply` changes the assignments in the same step as the replicas. The shell runs one
task for each core and learns from `take_changed` which tasks to start, wake and end.
"""

from typing import TYPE_CHECKING, NamedTuple

from barnabas.cluster.replication.fetch_settings import FetchSettings
from barnabas.cluster.replication.replication_quota import ReplicationQuota

if TYPE_CHECKING:
    from barnabas.cluster.replication.fetcher_core import FetcherCore
    from barnabas.cluster.replication.followed_partition import FollowedReplica
    from barnabas.cluster.replication.follower_session import Key


class FetcherKey(NamedTuple):
    """One connection to a leader; `number` is below `num.replica.fetchers`."""

    leader: int
    number: int


class FetcherAssignments:
    """The fetcher cores by leader and number, and the fetcher of each partition."""

    def __init__(self, broker_id: int, quota: ReplicationQuota) -> None:
        self.cores: dict[FetcherKey, FetcherCore] = {}
        self.quota = quota
        self._broker_id = broker_id
        self._settings = FetchSettings()
        self._count = 1
        self._places: dict[Key, FetcherKey] = {}
        self._changed: set[FetcherKey] = set()

    def follow(self, replica: "FollowedReplica", leader: int, leader_epoch: int) -> None:
        """Fetch a partition from this leader, and not from another one any longer."""
        key = (replica.topic_id, replica.partition)
        place = FetcherKey(leader, self._number(key))
        if self._places.get(key, place) != place:
            self.unfollow(key)
        core = self.cores.get(place)
        if core is None:
            core = self.cores[place] = self._new_core()
        self._places[key] = place
        core.follow(replica, leader_epoch)
        self._changed.add(place)

    def _new_core(self) -> "FetcherCore":
        # A node without followed partitions does not need the module at start-up.
        from barnabas.cluster.replication.fetcher_core import FetcherCore

        return FetcherCore(self._broker_id, self._settings, self.quota)

    def unfollow(self, key: "Key") -> None:
        """Do not fetch a partition from any leader."""
        place = self._places.pop(key, None)
        if place is None:
            return
        core = self.cores[place]
        core.unfollow(key)
        if not core.partitions:
            del self.cores[place]
        self._changed.add(place)

    def _number(self, key: "Key") -> int:
        topic_id, partition = key
        return (int.from_bytes(topic_id[:4]) + partition) % self._count

    def resize(self, count: int) -> None:
        """Use `count` fetchers for each leader (num.replica.fetchers)."""
        if count == self._count:
            return
        self._count = count
        moved = [
            (followed.replica, place.leader, followed.leader_epoch)
            for place, core in self.cores.items()
            for followed in core.partitions.values()
        ]
        for replica, leader, leader_epoch in moved:
            self.follow(replica, leader, leader_epoch)

    def configure(self, settings: FetchSettings) -> None:
        """Use these settings from the next requests on."""
        self._settings = settings
        for core in self.cores.values():
            core.settings = settings

    def take_changed(self) -> set[FetcherKey]:
        """Return the fetchers whose partitions changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    @property
    def failed_count(self) -> int:
        """The number of partitions that are not fetched until their leader epoch changes."""
        return sum(core.failed_count for core in self.cores.values())

    @property
    def max_lag(self) -> int:
        """The number of records that the partition furthest behind its leader lacks."""
        lags = [
            followed.lag or 0
            for core in self.cores.values()
            for followed in core.partitions.values()
        ]
        return max(lags, default=0)
