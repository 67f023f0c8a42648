"""The parts of a simulation that act on the cluster: clients, admins, operators."""

from typing import Protocol


class Actor(Protocol):
    """Acts from `start` until `stop`; what is in progress then must end within the rest."""

    def start(self) -> None:
        """Begin to act."""
        ...

    def stop(self) -> None:
        """Begin nothing more; the cluster comes to rest."""
        ...

    def check_end(self) -> None:
        """Check the invariants after the rest. Raises InvariantError."""
        ...
