"""The properties of a mirror topic: its flow, and the leader epochs that ended a mirror.

A topic with `barnabas.mirror.source` is a mirror: the flow of that name copies another cluster's
batches into it, with their offsets. At promotion the controller deletes that property and writes
`barnabas.mirror.promoted`: the flow, and for each partition the first leader epoch in which
ordinary producers write.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from barnabas.config.schema import Validator

SOURCE: Final = "barnabas.mirror.source"
PROMOTED: Final = "barnabas.mirror.promoted"

_FLOW: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_VALUE_MAX: Final = 32_767  # of a string in a metadata record
_NEVER: Final = -1


class FlowName(Validator):
    """The name of a flow; empty for a topic that is not a mirror."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("empty, or up to 249 characters of [A-Za-z0-9._-]")

    def refusal(self, value: str | None) -> str | None:
        """Refuse a name with other characters, or more of them."""
        if not value or _FLOW.fullmatch(value):
            return None
        return "it must be empty, or up to 249 letters, digits, dots, underscores and hyphens"


class PromotionText(Validator):
    """The text of a promotion."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("empty, or flow:epoch,epoch,...")

    def refusal(self, value: str | None) -> str | None:
        """Refuse a text that is not a flow and epochs."""
        try:
            Promotion.parse(value or "")
        except ValueError:
            return "it must be empty, or a flow and the epoch of each partition, as flow:4,4,5"
        return None


class Promotion(NamedTuple):
    """The end of a mirror: `epochs` has the first leader epoch after it, by partition."""

    flow: str
    epochs: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Promotion:
        """Return the promotion in a property's value. Raises ValueError."""
        flow, _, epochs = text.partition(":")
        return cls(flow, tuple(int(epoch) for epoch in epochs.split(",")) if epochs else ())

    def epoch_of(self, partition: int) -> int:
        """Return the first leader epoch after the mirror; -1 for a partition added later."""
        return self.epochs[partition] if partition < len(self.epochs) else _NEVER

    def __str__(self) -> str:
        return f"{self.flow}:{','.join(map(str, self.epochs))}"

    @property
    def fits(self) -> bool:
        """True when its text fits into a metadata record."""
        return len(str(self)) <= _VALUE_MAX
