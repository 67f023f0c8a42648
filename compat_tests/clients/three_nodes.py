"""The clusters that the suites run on, with properties that the suites' own brokers have."""

from collections.abc import Iterator
from contextlib import contextmanager

from compat_tests.cluster.clusters import (
    BarnabasCluster,
    KafkaCluster,
    SecuredCluster,
    TrialCluster,
)

_CONFIG = {
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}


def three_nodes(kind: str, partitions: int = 4, *, is_secured: bool = False) -> TrialCluster:
    """Return three nodes of "barnabas" or "kafka", not yet started.

    Topics that are created automatically have this number of partitions and three replicas. Nodes
    of barnabas may have SASL_SSL on each listener.
    """
    config = {**_CONFIG, "num.partitions": str(partitions)}
    if kind == "kafka":
        return KafkaCluster(config)
    if is_secured:
        return SecuredCluster(config)
    cluster = BarnabasCluster(config)
    for node_id, node in cluster.processes.nodes.items():
        node.config["advertised.listeners"] = f"PLAINTEXT://{cluster.addresses[node_id]}"
    return cluster


def keep_logs(cluster: TrialCluster) -> None:
    """Write the nodes' logs to a directory that stays, and print its path."""
    print(f"the logs of the nodes are in {cluster.keep_logs()}", flush=True)


@contextmanager
def logs_kept(cluster: TrialCluster) -> Iterator[None]:
    """Keep the nodes' logs when the block raises."""
    try:
        yield
    except BaseException:
        keep_logs(cluster)
        raise
