"""Servers for tests: a node inside the test's process, or a separate process that can be killed.

`Node` runs in a background thread, on a free port and in a temporary directory; it is the node
that `barnabas serve` runs. `process.NodeProcess` starts that command. `history`
records what clients of any server did and finds anomalies in it. The server must not import this
package.
"""

from barnabas.testing.embedded_node import Node

__all__ = ["Node"]
