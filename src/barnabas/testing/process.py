"""The public place of `NodeProcess`."""

from barnabas.testing.node_process_control import NodeProcess

__all__ = ["NodeProcess"]
