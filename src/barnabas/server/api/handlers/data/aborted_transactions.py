"""The aborted transactions in fetched records, for read_committed consumers."""

from bisect import bisect_right

from barnabas.log import FileSlice, PartitionLog
from barnabas.protocol.messages.fetch import FetchResponse

AbortedTransaction = FetchResponse.AbortedTransaction


def aborted_in(
    log: PartitionLog, offset: int, records: FileSlice, end: int
) -> list[AbortedTransaction]:
    """Return those that overlap `records`, which start at `offset` and end below `end`.

    As `UnifiedLog.addAbortedTransactions`: up to the end that the offset index gives for them.
    """
    segments = log.segments
    number = max(bisect_right(segments, offset, key=lambda each: each.base_offset) - 1, 0)
    # The records are from one segment: the first with records from the offset on.
    while number + 1 < len(segments) and segments[number].file is not records.file:
        number += 1
    segment = segments[number]
    if number + 1 < len(segments):
        end = min(end, segments[number + 1].base_offset)
    found = log.aborted_transactions(offset, end)
    if not found:
        return []
    index = segment.offset_index
    following = index.search(records.position + records.size - 1, field=1) + 1
    if following < len(index):
        end = min(end, segment.base_offset + index.entry(following)[0] + 1)
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in found
        if each.first_offset < end
    ]
