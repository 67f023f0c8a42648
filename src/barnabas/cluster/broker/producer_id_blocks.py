"""The blocks of producer ids that the controller allocates to a broker (KIP-730)."""

from typing import Final

_PREFETCH_SHARE: Final = 0.9
_PRODUCER_ID_MAX: Final = (1 << 63) - 1


class InvalidBlockError(ValueError):
    """The controller allocated ids that this broker must not use."""


class ProducerIdBlocks:
    """The block in use and the next one; a block that is not used up before a stop is lost."""

    def __init__(self) -> None:
        self._start = self._end = 0
        self._next: int = 0
        self._next_block: tuple[int, int] | None = None

    def take(self) -> int | None:
        """Return a new id, or None until `add`."""
        block = self._next_block
        if self._next == self._end and block is not None:
            self._start, self._end = block
            self._next, self._next_block = block[0], None
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    @property
    def needs_block(self) -> bool:
        """True when a tenth of the block or less is left, and the next block is missing."""
        used, size = self._next - self._start, self._end - self._start
        return self._next_block is None and used >= size * _PREFETCH_SHARE

    def add(self, start: int, length: int) -> None:
        """Add an allocated block.

        Raises InvalidBlockError unless its ids are valid and above those of the block in use.
        """
        if start < 0 or length < 0 or start > _PRODUCER_ID_MAX - length:
            raise InvalidBlockError(f"the block has {length} producer ids from {start}")
        if start < self._end:
            raise InvalidBlockError(
                f"the block begins at {start}, below the end of the current one, {self._end}"
            )
        self._next_block = start, start + length
