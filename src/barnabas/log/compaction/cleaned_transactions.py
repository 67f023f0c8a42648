"""Track which transactions still have records in a log being cleaned.

Kafka's `CleanedTransactionMetadata`. Records of aborted transactions are removed. A commit or abort
marker is removed when no batch of its transaction remains before it and its delete horizon is over.
"""

import heapq
from collections.abc import Iterable

from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.protocol.batches.batch_header import BatchHeader


class CleanedTransactions:
    """Receives every batch in the order of the log.

    `index` collects the aborted transactions that still have records.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._waiting = [(each.first_offset, each) for each in aborted]
        heapq.heapify(self._waiting)
        self._aborted: dict[int, AbortedTxn] = {}
        # Producers whose current aborted transaction has records.
        self._has_records: set[int] = set()
        self._committed: set[int] = set()
        self.index: list[AbortedTxn] = []

    def _begin(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, aborted = heapq.heappop(self._waiting)
            self._aborted.setdefault(aborted.producer_id, aborted)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Record a data batch. Return True when its transaction was aborted."""
        self._begin(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._has_records.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_unneeded_marker(self, header: BatchHeader, is_commit: bool | None) -> bool:
        """Record a control batch. Return True when no batch of its transaction remains before it.

        `is_commit` is None for an emptied batch and for other control records.
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
