"""Starting and killing several node processes at the same time."""

from collections.abc import Iterable
from typing import Protocol


class NodeControl(Protocol):
    """The part of a node process that starts and ends it; `NodeProcess` has it."""

    @property
    def is_running(self) -> bool:
        """True when the process has not ended."""
        ...

    def launch(self) -> None:
        """Start the process, and do not wait for it."""
        ...

    def wait_ready(self) -> object:
        """Return once it serves clients."""
        ...

    def send_kill(self) -> None:
        """Send SIGKILL, and do not wait for the end."""
        ...

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        ...


def start_together(nodes: Iterable[NodeControl]) -> None:
    """Start the nodes that do not run; return once all of them serve clients."""
    launched = [node for node in nodes if not node.is_running]
    for node in launched:
        node.launch()
    for node in launched:
        node.wait_ready()


def kill_together(nodes: Iterable[NodeControl]) -> None:
    """Kill all nodes within an instant (SIGKILL), and wait for their ends."""
    every = list(nodes)
    for node in every:
        if node.is_running:
            node.send_kill()
    for node in every:
        node.kill()
