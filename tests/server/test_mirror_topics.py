"""Mirror topics on three nodes: replication, elections, log start, promotion."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from barnabas.config.mirror_topics import SOURCE
from barnabas.log import PartitionLog
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.errors import ErrorCode
from barnabas.testing import Cluster, Node
from barnabas.testing.batches import batch, marker
from barnabas.testing.eventually import wait_until
from barnabas.testing.mirrored import placed, without_epochs
from tests.server import mirror_flow as flow

pytestmark = pytest.mark.timeout(180)

SOURCE_LOG = [
    placed(batch(b"a", b"b", producer=(3, 0, 0)), 104),
    placed(batch(b"c", producer=(1000, 6, 5), transactional=True), 110),
    placed(batch(b"d"), 111),
    placed(marker(1000, 6, commit=False), 112),
    placed(batch(b"e", producer=(1001, 6, 5), transactional=True), 120),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, config={"min.insync.replicas": "2"}) as cluster:
        assert flow.create_mirror(cluster.nodes[1].bootstrap, replicas=3) == 0
        yield cluster


def leader(cluster: Cluster) -> str:
    """Return the address of the mirror's leader."""
    return cluster.nodes[cluster.leader_of("m", 0)].bootstrap


def log_of(node: Node) -> PartitionLog:
    assert node.server is not None
    partition = node.server.replicas.hosted("m", 0)
    assert partition is not None
    return partition.log


def stored(cluster: Cluster) -> dict[int, list[bytes]]:
    """Return the batches of each running replica."""
    found: dict[int, list[bytes]] = {}
    for node_id, node in cluster.running.items():
        log = log_of(node)
        data = log.read(log.log_start_offset, 1 << 20, upper_bound=log.log_end_offset).read()
        found[node_id] = [data[at : at + each.size] for at, each in iter_batches(data)]
    return found


def wait_equal(cluster: Cluster, source: list[bytes]) -> None:
    """Wait until all replicas have the batches of the source, and are byte for byte equal."""

    def is_equal() -> bool:
        logs = list(stored(cluster).values())
        return without_epochs(logs[0]) == source and all(log == logs[0] for log in logs)

    wait_until(is_equal)


def states(cluster: Cluster) -> set[tuple[int, int, int]]:
    """Return log start, last stable offset and log end of the running replicas."""
    logs = [log_of(node) for node in cluster.running.values()]
    return {(log.log_start_offset, log.last_stable_offset, log.log_end_offset) for log in logs}


def copy_until_accepted(cluster: Cluster, batches: list[bytes], position: int) -> None:
    """Send batches as a flow does, which asks the next leader after an error."""
    accepted = (ErrorCode.NONE,)
    wait_until(lambda: flow.copy(leader(cluster), batches, position).error_code in accepted)


def test_mirror_survives_its_leaders_and_is_promoted(cluster: Cluster) -> None:
    assert flow.start_at(leader(cluster), 100) == (0, 100)
    assert states(cluster) == {(100, 100, 100)}
    copy_until_accepted(cluster, SOURCE_LOG[:3], 100)
    wait_equal(cluster, SOURCE_LOG[:3])
    first = cluster.leader_of("m", 0)
    cluster.kill(first)
    wait_until(lambda: cluster.leader_of("m", 0) not in (first, -1))
    copy_until_accepted(cluster, SOURCE_LOG[1:], 106)
    cluster.restart(first)
    cluster.wait_in_sync("m", 0)
    wait_equal(cluster, SOURCE_LOG)
    wait_until(lambda: states(cluster) == {(100, 120, 121)})

    epoch = cluster.partition("m", 0).leader_epoch
    flow.promote(leader(cluster))
    wait_until(lambda: states(cluster) == {(100, 122, 122)})
    assert cluster.partition("m", 0).leader_epoch == epoch + 1
    late = flow.copy(leader(cluster), [placed(batch(b"late"), 200)], 121)
    assert late.error_code == ErrorCode.POLICY_VIOLATION
    for _ in range(3):
        write_with_new_ids(cluster)
        last = cluster.leader_of("m", 0)
        cluster.kill(last)
        wait_until(lambda last=last: cluster.leader_of("m", 0) not in (last, -1))
        write_with_new_ids(cluster)
        cluster.restart(last)
        cluster.wait_in_sync("m", 0)


def write_with_new_ids(cluster: Cluster) -> None:
    """Write with producers that have the ids 1000 and 1001 of mirrored ones in the course."""
    bootstrap = ",".join(node.bootstrap for node in cluster.running.values())
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    errors: list[object] = []
    producer.produce("m", b"own", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]


def test_epoch_starts_at_every_change_of_the_flow(cluster: Cluster) -> None:
    epoch = cluster.partition("m", 0).leader_epoch
    for value in ("other", "other", flow.FLOW):
        assert flow.alter(leader(cluster), SOURCE, value) == (0, None)
    wait_until(lambda: cluster.partition("m", 0).leader_epoch == epoch + 2)
