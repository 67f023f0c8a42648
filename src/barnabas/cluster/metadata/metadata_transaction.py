"""Metadata transactions: records between Begin and End take effect together (KIP-868).

Records of an open transaction are held back, so that no image and no snapshot has a part of them.
"""

from collections import deque
from collections.abc import Sequence

import attrs

from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)


@attrs.frozen(slots=True)
class _State:
    """The records of the open transaction (None: there is none) after those below an offset."""

    next_offset: int
    held: tuple[Message, ...] | None


class MetadataTransaction:
    """Holds the records of the transaction that is open at the end of the log."""

    def __init__(self, held: Sequence[Message] | None = None) -> None:
        self._states = deque([_State(0, None if held is None else tuple(held))])

    @property
    def is_open(self) -> bool:
        """True when the log ends within a transaction."""
        return self._states[-1].held is not None

    def take(self, records: Sequence[Message], next_offset: int) -> list[Message] | None:
        """Return the records of a batch to replay; None while all of them are held back."""
        before = held = self._states[-1].held
        released: list[Message] = []
        for record in records:
            if isinstance(record, BeginTransactionRecord):
                held = ()
            elif isinstance(record, AbortTransactionRecord):
                held = None
            elif isinstance(record, EndTransactionRecord):
                released += held or ()
                held = None
            elif held is not None:
                held = (*held, record)
            else:
                released.append(record)
        if held is not before:
            self._states.append(_State(next_offset, held))
        return None if held is not None and not released else released

    def abort(self, next_offset: int) -> None:
        """The active controller has aborted the transaction."""
        self._states.append(_State(next_offset, None))

    def truncate(self, offset: int) -> None:
        """Return to the state of the log's end at `offset`."""
        while len(self._states) > 1 and self._states[-1].next_offset > offset:
            self._states.pop()

    def trim(self, offset: int) -> None:
        """Forget the states before those of `offset`, which is committed."""
        while len(self._states) > 1 and self._states[1].next_offset <= offset:
            self._states.popleft()
