"""Reading batches with READ_COMMITTED, as a consumer does with the list of aborted transactions."""

from collections.abc import Iterable

from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.control_batches import ControlType, control_type
from barnabas.protocol.batches.record_decoding import Record, read_records


def visible_records(
    data: bytes, offset: int, aborted: Iterable[tuple[int, int]]
) -> tuple[list[Record], int]:
    """Return the records from an offset on that a consumer sees, and the offset after the data.

    `aborted` has the producer id and the first offset of aborted transactions.
    """
    pending = sorted(aborted, key=lambda each: each[1])
    running: set[int] = set()
    found: list[Record] = []
    end = offset
    for position, header in iter_batches(data):
        while pending and pending[0][1] <= header.last_offset:
            running.add(pending.pop(0)[0])
        records = read_records(data, position, header)
        end = max(end, header.next_offset)
        if header.is_control:
            if control_type(records[0].key) == ControlType.ABORT:
                running.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in running):
            found += (record for record in records if record.offset >= offset)
    return found, end
