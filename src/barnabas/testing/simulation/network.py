"""The faults of a simulated network, and why a request has no response.

Senders distinguish three failures: the receiver's port refuses (its process is dead), the
connection is reset (its process died), or there is silence (a cut, a pause, a loss of power).
"""

import enum
from collections.abc import Callable
from typing import Any

import attrs


class Failure(enum.Enum):
    """Why a request has no response."""

    REFUSED = "refused"
    RESET = "reset"
    SILENT = "silent"
    TOO_OLD = "too old"
    """The receiver's versions cannot carry the request."""


OnResponse = Callable[[Any], None]
OnFailure = Callable[[Failure], None]


@attrs.define(slots=True)
class Delays:
    """Delays of messages in µs: `low` to `high`, and with `tail_chance` up to `tail`."""

    low: int = 100
    high: int = 1_000
    tail: int = 30_000
    tail_chance: float = 0.0


class Network:
    """The faults between nodes; `sim_streams` carries bytes under them."""

    def __init__(self) -> None:
        self.delays = Delays()
        self.reset_chance = 0.0
        self._cuts: set[tuple[int, int]] = set()

    def cut(self, source: int, target: int) -> None:
        """Lose all messages from one node to another, in this direction."""
        self._cuts.add((source, target))

    def heal(self) -> None:
        """End all cuts."""
        self._cuts.clear()

    def is_cut(self, source: int, target: int) -> bool:
        """True while messages from `source` to `target` are lost."""
        return (source, target) in self._cuts
