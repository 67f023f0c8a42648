"""The public place of `NodeProcess` and `ClusterProcess`."""

from barnabas.testing.cluster_process_control import ClusterProcess
from barnabas.testing.node_process_control import NodeProcess

__all__ = ["ClusterProcess", "NodeProcess"]
