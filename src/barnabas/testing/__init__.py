"""Servers for tests: a node inside the test's process, or a real process that can be killed.

`Node` runs in a background thread on a free port with data of its own, and is the same node that
`barnabas serve` runs; `process.NodeProcess` starts that command. `history` notes what clients did
and finds what is wrong with it, whatever server they used. Nothing of the server imports
this package.
"""

from barnabas.testing.embedded_node import Node

__all__ = ["Node"]
