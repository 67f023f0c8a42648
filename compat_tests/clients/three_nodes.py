"""The clusters that the suites run on, with properties that the suites' own brokers have."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compat_tests.client_quotas import CONSUMER, OK, PRODUCER, Parts, alter
from compat_tests.cluster.clusters import (
    BarnabasCluster,
    KafkaCluster,
    SecuredCluster,
    SecuredKafkaCluster,
    TrialCluster,
)

_CONFIG = {
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
_QUOTAS = {
    PRODUCER: 2_000_000.0,
    CONSUMER: 2_000_000.0,
    "request_percentage": 50.0,
}


def three_nodes(kind: str, partitions: int = 4, *, is_secured: bool = False) -> TrialCluster:
    """Return three nodes of "barnabas" or "kafka", not yet started.

    Topics that are created automatically have this number of partitions and three replicas. With
    `is_secured` each listener has SASL_SSL.
    """
    config = {**_CONFIG, "num.partitions": str(partitions)}
    if kind == "kafka":
        return SecuredKafkaCluster(config) if is_secured else KafkaCluster(config)
    if is_secured:
        return SecuredCluster(config)
    cluster = BarnabasCluster(config)
    for node_id, node in cluster.processes.nodes.items():
        node.config["advertised.listeners"] = f"PLAINTEXT://{cluster.addresses[node_id]}"
    return cluster


def throttle_all(cluster: TrialCluster) -> None:
    """Set quotas of bytes and of request time so low that a suite is throttled.

    Not of topics that are created: the suites take the refusal of one for a failure.
    """
    entity: Parts = (("client-id", None),)
    first = next(iter(cluster.addresses.values()))
    assert alter(first, (entity, tuple(_QUOTAS.items()))) == {entity: OK}


def keep_logs(logs: Mapping[int, str]) -> None:
    """Write the nodes' logs to a new directory, which stays, and print its path."""
    directory = Path(tempfile.mkdtemp(prefix="suite-logs-"))
    for node_id, log in logs.items():
        (directory / f"node-{node_id}.log").write_text(log)
    print(f"the logs of the nodes are in {directory}", flush=True)


@contextmanager
def logs_kept(logs: Callable[[], Mapping[int, str]]) -> Iterator[None]:
    """Keep the nodes' logs when the block raises."""
    try:
        yield
    except BaseException:
        keep_logs(logs())
        raise
