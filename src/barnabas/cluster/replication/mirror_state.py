"""A mirror as a partition sees it: its flow, and the epoch in which it was promoted."""

from typing import Final

from barnabas.config import TopicConfig

NOT_PROMOTED: Final = -1
_NO_END: Final = 0x7FFF_FFFF
"""A leader epoch above all that a partition has."""


class MirrorState:
    """A partition that a flow writes, or wrote until the topic was promoted.

    `promoted_epoch` is the first leader epoch of ordinary producers, -1 while only the flow writes.
    `is_settled` is True when this leader has ended, in its epoch, what was open at the promotion.
    """

    __slots__ = ("flow", "is_settled", "promoted_epoch")

    def __init__(self, flow: str, promoted_epoch: int = NOT_PROMOTED) -> None:
        self.flow = flow
        self.promoted_epoch = promoted_epoch
        self.is_settled = False

    def is_same(self, other: "MirrorState | None") -> bool:
        """True when the topic's properties say the same as before."""
        return other is not None and (self.flow, self.promoted_epoch) == (
            other.flow,
            other.promoted_epoch,
        )

    @property
    def is_active(self) -> bool:
        """True while only the flow writes."""
        return self.promoted_epoch == NOT_PROMOTED

    @property
    def end_epoch(self) -> int:
        """The leader epochs below it are the mirror's: all, while only the flow writes."""
        return _NO_END if self.is_active else self.promoted_epoch


def mirror_state_of(config: TopicConfig, partition: int) -> MirrorState | None:
    """Return the state of a partition; None when its topic is not a mirror and never was."""
    if config.mirror_source:
        return MirrorState(config.mirror_source)
    promotion = config.mirror_promotion
    if promotion is None:
        return None
    epoch = promotion.epoch_of(partition)
    return None if epoch == NOT_PROMOTED else MirrorState(promotion.flow, epoch)
