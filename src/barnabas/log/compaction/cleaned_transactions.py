"""Which transactions still have records in a log that is cleaned (`CleanedTransactionMetadata`).

Records of aborted transactions go; an abort marker goes when no batch of its transaction is left
before it, and so does a commit marker: both not before their delete horizon.
"""

import heapq
from collections.abc import Iterable

from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.protocol.batches.batch_header import BatchHeader


class CleanedTransactions:
    """Is shown every batch in the order of the log; `index` gathers what stays aborted."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._waiting = [(each.first_offset, each) for each in aborted]
        heapq.heapify(self._waiting)
        self._aborted: dict[int, AbortedTxn] = {}
        self._has_records: set[int] = set()  # producers whose open aborted transaction has some
        self._committed: set[int] = set()
        self.index: list[AbortedTxn] = []

    def _begin(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, aborted = heapq.heappop(self._waiting)
            self._aborted.setdefault(aborted.producer_id, aborted)

    def is_aborted(self, header: BatchHeader) -> bool:
        """See a batch of data; whether its transaction was aborted."""
        self._begin(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._has_records.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def ends_nothing(self, header: BatchHeader, is_commit: bool | None) -> bool:
        """See a control batch; whether its transaction has no batch before it any more.

        `is_commit` is None for a batch that was emptied, and for other control records.
        """
        self._begin(header.last_offset)
        producer_id = header.producer_id
        if is_commit is None:
            return header.record_count == 0
        if is_commit:
            had = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had
        aborted = self._aborted.pop(producer_id, None)
        if aborted is not None and producer_id in self._has_records:
            self._has_records.discard(producer_id)
            self.index.append(aborted)
            return False
        return True
