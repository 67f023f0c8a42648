"""`python -m compat_tests.cluster.planted_node MISTAKE MODULE ...`: a node with one mistake.

The module runs as with `python -m MODULE`, in a process in which one function is wrong. The steps
of the ladder must notice (`make ladder-mistakes`).
"""

import itertools
import runpy
import sys
from collections.abc import Callable, Iterator
from typing import Any


def leader_alone_commits() -> None:
    """Records are committed as soon as the leader has them."""
    from barnabas.cluster.replication.leader_state import LeaderState

    LeaderState.high_watermark = lambda _, end, __: end  # type: ignore[method-assign]


def high_watermark_outruns_a_returning_follower() -> None:
    """The high watermark does not wait for a caught-up replica outside the ISR."""
    from barnabas.cluster.replication.leader_state import LeaderState

    LeaderState._is_joining = lambda *_: False  # type: ignore[method-assign]


def broken_disk_is_ignored() -> None:
    """An I/O error is answered, and the directory stays online."""
    from barnabas.log.volume import Volume

    Volume.fail = lambda volume, _: volume.offline()  # type: ignore[method-assign]


def no_controlled_shutdown() -> None:
    """A node ends without handing over its leaderships."""
    from barnabas.server.node.node import Node

    async def skip(_: Node) -> None:
        pass

    Node._shut_down_broker = skip  # type: ignore[method-assign]


def throttle_is_ignored() -> None:
    """Throttled replicas are replicated at full speed."""
    from barnabas.cluster.replication.replication_quota import ReplicationQuota

    ReplicationQuota.is_exceeded = lambda *_: False  # type: ignore[method-assign]


def voters_are_known_by_node_id() -> None:
    """A voter with a new disk counts as the voter that it was."""
    from barnabas.cluster.quorum.voters import VoterSet

    VoterSet.is_voter = lambda voters, key: key.id in voters.voters  # type: ignore[method-assign]


def coordinators_begin_empty() -> None:
    """A coordinator that moves to another node does not replay its log there."""
    from barnabas.log import PartitionLog
    from barnabas.server.coordinators import coordinator_partition

    def skip(log: PartitionLog, _: object) -> Iterator[None]:
        yield
        return log.log_end_offset

    coordinator_partition.replay_log = skip


def racks_are_ignored() -> None:
    """A consumer is never sent to the follower in its rack."""
    from barnabas.cluster.replication.replica_selection import NO_PREFERENCE
    from barnabas.server.api.handlers.data import fetch_reading

    fetch_reading.preferred_read_replica = lambda *_: NO_PREFERENCE


def high_watermark_of_the_quorum_falls() -> None:
    """A field of one RPC is wrong: the high watermark in every second answer to a voter."""
    from barnabas.cluster.quorum import raft_wire
    from barnabas.protocol.messages.fetch import FetchResponse

    numbers = itertools.count()
    right = raft_wire.fetch_response

    def wrong(*arguments: Any, **named: Any) -> FetchResponse:
        response = right(*arguments, **named)
        if next(numbers) % 2:
            partition = response.responses[0].partitions[0]
            partition.high_watermark = max(partition.high_watermark - 5, 0)
        return response

    raft_wire.fetch_response = wrong


def files_of_deleted_logs_stay_open() -> None:
    """A deleted log is dropped without closing its files."""
    from barnabas.log.file_cache import FileCache
    from barnabas.log.partition.partition_log import PartitionLog

    kept: list[Any] = []
    close = FileCache.close

    def keep(cache: FileCache, owner: Any) -> None:
        if owner.file is not None:
            kept.append(owner.file)
        close(cache, owner)

    def release(log: PartitionLog) -> None:
        FileCache.close = keep  # type: ignore[method-assign]
        try:
            right(log)
        finally:
            FileCache.close = close  # type: ignore[method-assign]

    right = PartitionLog.release
    PartitionLog.release = release  # type: ignore[method-assign]


MISTAKES: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        leader_alone_commits,
        high_watermark_outruns_a_returning_follower,
        broken_disk_is_ignored,
        no_controlled_shutdown,
        throttle_is_ignored,
        voters_are_known_by_node_id,
        coordinators_begin_empty,
        racks_are_ignored,
        high_watermark_of_the_quorum_falls,
        files_of_deleted_logs_stay_open,
    )
}


def main() -> None:
    """Plant the mistake, and run the module."""
    name, module = sys.argv[1:3]
    MISTAKES[name]()
    sys.argv[:] = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
