"""Servers for tests: nodes inside the test's process, or separate processes that can be killed.

`Node` runs in a background thread, on a free port and in a temporary directory; it is the node
that `barnabas serve` runs, with TLS, users and ACLs when it gets a `Security`. `Cluster` is several
such nodes of one cluster. `process.NodeProcess` starts that command, and
`process.ClusterProcess` several of them. `pytest_plugin` has fixtures. `history` records what
clients of any server did and finds anomalies in it. The server must not import this package.
"""

from barnabas.testing.embedded_cluster import Cluster
from barnabas.testing.embedded_node import Node
from barnabas.testing.node_security import Security

__all__ = ["Cluster", "Node", "Security"]
