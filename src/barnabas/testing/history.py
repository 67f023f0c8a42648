"""A history of sends and reads and its anomalies, in the manner of jepsen.tests.kafka.

A test records what its producers and consumers did: each `Operation` is a transaction, or a single
send or poll, with an outcome that may be unknown. Every value is written at most once in the whole
history. `check` then finds anomalies, which no run of a correct server explains:

- `INCONSISTENT_OFFSETS`: two values at one offset of a partition;
- `DUPLICATE`: one value at two offsets, in what was read or between an ack and a read;
- `ABORTED_READ`: a value that was read although its operation failed;
- `LOST`: a value that was acked and skipped: later offsets were read, it never was;
- `UNSEEN`: a value that was acked and not read, when no consumer has read as far;
- `TORN`: an operation of which some values were read, while others were skipped;
- `UNWRITTEN`: a value that was read and that no producer wrote;
- `NONMONOTONIC_READ`: a process that read backwards without having been repositioned;
- `SKIPPED_READ`: a process that skipped an offset where another process read a value;
- `NONMONOTONIC_SEND`: two values of one process whose offsets are not in the order of its sends.

ABORTED_READ, TORN and SKIPPED_READ need read_committed consumers, a log without deletions, and
producers that keep their order: idempotent ones, or with one request in flight.
"""

import json
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import Enum
from itertools import chain
from pathlib import Path

import attrs

Partition = tuple[str, int]


class Outcome(Enum):
    """The outcome of an operation, as its process knows it."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Kind(Enum):
    """The kinds of anomalies."""

    INCONSISTENT_OFFSETS = "inconsistent offsets"
    DUPLICATE = "duplicate"
    ABORTED_READ = "aborted read"
    LOST = "lost"
    UNSEEN = "unseen"
    TORN = "torn"
    UNWRITTEN = "unwritten"
    NONMONOTONIC_READ = "nonmonotonic read"
    SKIPPED_READ = "skipped read"
    NONMONOTONIC_SEND = "nonmonotonic send"


@attrs.frozen
class Anomaly:
    """One thing that is wrong, and where."""

    kind: Kind
    partition: Partition
    value: str
    detail: str

    def __str__(self) -> str:
        topic, number = self.partition
        return f"{self.kind.value}: {self.value} in {topic}-{number}: {self.detail}"


@attrs.frozen
class Seen:
    """A value in a partition, written or read; the offset is -1 where the writer has no ack."""

    partition: Partition
    offset: int
    value: str


@attrs.define
class Operation:
    """One transaction, send or poll of a process; without `ok` or `fail` its outcome is unknown."""

    process: str
    sends: list[Seen] = attrs.Factory(list[Seen])
    reads: list[Seen] = attrs.Factory(list[Seen])
    outcome: Outcome = Outcome.UNKNOWN
    repositioned: bool = False
    """True when the process may have changed its position: a start, a seek, a rebalance."""

    def sent(self, topic: str, partition: int, value: str, offset: int = -1) -> None:
        """Record a write, with its offset when it is acked."""
        self.sends.append(Seen((topic, partition), offset, value))

    def acked(self, topic: str, partition: int, value: str, offset: int) -> None:
        """Record the offset of a recorded write. Raises ValueError when it was not recorded."""
        values = [each.value for each in self.sends]
        self.sends[values.index(value)] = Seen((topic, partition), offset, value)

    def read(self, topic: str, partition: int, offset: int, value: str) -> None:
        """Note a record that a consumer got."""
        self.reads.append(Seen((topic, partition), offset, value))

    def ok(self) -> None:
        """It certainly happened."""
        self.outcome = Outcome.OK

    def fail(self) -> None:
        """It certainly did not happen, and never will."""
        self.outcome = Outcome.FAIL


class History:
    """The operations of all processes, in the order of their beginnings; threads may share it."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._lock = threading.Lock()

    def begin(self, process: str) -> Operation:
        """A new operation of a process."""
        operation = Operation(process)
        with self._lock:
            self.operations.append(operation)
        return operation

    def save(self, path: Path) -> None:
        """Write it as JSON lines, one for each operation."""
        with path.open("w", encoding="utf-8") as file:
            for each in self.operations:
                line = {
                    "process": each.process,
                    "outcome": each.outcome.value,
                    "repositioned": each.repositioned,
                    "sends": [[*seen.partition, seen.offset, seen.value] for seen in each.sends],
                    "reads": [[*seen.partition, seen.offset, seen.value] for seen in each.reads],
                }
                file.write(json.dumps(line) + "\n")

    @classmethod
    def load(cls, path: Path) -> "History":
        """Read what `save` wrote; ValueError, KeyError for anything else."""
        history = cls()
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            operation = history.begin(line["process"])
            operation.outcome = Outcome(line["outcome"])
            operation.repositioned = line["repositioned"]
            for topic, partition, offset, value in line["sends"]:
                operation.sent(topic, partition, value, offset)
            for topic, partition, offset, value in line["reads"]:
                operation.read(topic, partition, offset, value)
        return history

    def reads(self) -> Iterator[Seen]:
        """Yield every value that was read."""
        for operation in self.operations:
            yield from operation.reads


def check(history: History, *, everything_was_read: bool = False) -> list[Anomaly]:
    """All that is wrong with a history; nothing, if it is sound.

    With `everything_was_read` consumers are known to have come to the end of every partition after
    the last write, so that what they did not see is lost.
    """
    view = _View(history, everything_was_read=everything_was_read)
    return [
        *view.inconsistent_offsets(),
        *view.duplicates(),
        *view.aborted_reads(),
        *view.missing(),
        *view.torn(),
        *view.unwritten(),
        *view.reads_out_of_order(),
        *view.nonmonotonic_sends(),
    ]


class _View:
    """A history, by what the analyses ask for."""

    def __init__(self, history: History, *, everything_was_read: bool) -> None:
        self._operations = history.operations
        self._everything_was_read = everything_was_read
        self._read_at: dict[str, set[tuple[Partition, int]]] = {}
        self._highest: dict[Partition, int] = {}
        for seen in history.reads():
            self._read_at.setdefault(seen.value, set()).add((seen.partition, seen.offset))
            highest = self._highest.get(seen.partition, -1)
            self._highest[seen.partition] = max(highest, seen.offset)

    def _acked(self) -> Iterator[Seen]:
        for operation in self._operations:
            if operation.outcome is Outcome.OK:
                yield from operation.sends

    def _was_skipped(self, seen: Seen) -> bool:
        """Return True when the value was not read and later offsets were."""
        if seen.value in self._read_at:
            return False
        passed = 0 <= seen.offset < self._highest.get(seen.partition, -1)
        return passed or self._everything_was_read

    def inconsistent_offsets(self) -> Iterator[Anomaly]:
        """Two values at one offset."""
        values: dict[tuple[Partition, int], set[str]] = {}
        reads = (seen for operation in self._operations for seen in operation.reads)
        for seen in chain(self._acked(), reads):
            if seen.offset >= 0:
                values.setdefault((seen.partition, seen.offset), set()).add(seen.value)
        for (partition, offset), found in values.items():
            if len(found) > 1:
                first, *others = sorted(found)
                yield Anomaly(
                    Kind.INCONSISTENT_OFFSETS, partition, first, f"{offset} also holds {others}"
                )

    def duplicates(self) -> Iterator[Anomaly]:
        """One value at several offsets."""
        acked_at = {
            seen.value: (seen.partition, seen.offset) for seen in self._acked() if seen.offset >= 0
        }
        for value, places in self._read_at.items():
            acked = acked_at.get(value)
            known = places if acked is None else places | {acked}
            if len(known) > 1:
                (partition, _), *_ = sorted(known)
                detail = f"read at {sorted(places)}, acked at {acked}"
                yield Anomaly(Kind.DUPLICATE, partition, value, detail)

    def aborted_reads(self) -> Iterator[Anomaly]:
        """Values of operations that failed."""
        for operation in self._operations:
            if operation.outcome is Outcome.FAIL:
                for seen in operation.sends:
                    if seen.value in self._read_at:
                        detail = f"{operation.process} failed to write it"
                        yield Anomaly(Kind.ABORTED_READ, seen.partition, seen.value, detail)

    def missing(self) -> Iterator[Anomaly]:
        """Yield values that were acked and not read: skipped, or not reached."""
        for seen in self._acked():
            if seen.value in self._read_at:
                continue
            kind = Kind.LOST if self._was_skipped(seen) else Kind.UNSEEN
            highest = self._highest.get(seen.partition, -1)
            detail = f"acked at {seen.offset}, read up to {highest}"
            yield Anomaly(kind, seen.partition, seen.value, detail)

    def torn(self) -> Iterator[Anomaly]:
        """Operations of unknown outcome that happened by half; of an acked one the rest is lost."""
        for operation in self._operations:
            if operation.outcome is not Outcome.UNKNOWN:
                continue
            skipped = [seen for seen in operation.sends if self._was_skipped(seen)]
            if skipped and any(seen.value in self._read_at for seen in operation.sends):
                for seen in skipped:
                    detail = f"others of {operation.process}'s operation were read"
                    yield Anomaly(Kind.TORN, seen.partition, seen.value, detail)

    def unwritten(self) -> Iterator[Anomaly]:
        """Values that came from nowhere."""
        written = {seen.value for operation in self._operations for seen in operation.sends}
        for value, places in self._read_at.items():
            if value not in written:
                (partition, offset), *_ = sorted(places)
                yield Anomaly(Kind.UNWRITTEN, partition, value, f"read at {offset}")

    def reads_out_of_order(self) -> Iterator[Anomaly]:
        """Processes that read backwards, or passed over what others read."""
        filled = self._filled_offsets()
        positions: dict[str, dict[Partition, int]] = {}
        for operation in self._operations:
            if operation.repositioned:
                positions.pop(operation.process, None)
            of_process = positions.setdefault(operation.process, {})
            for seen in operation.reads:
                last = of_process.get(seen.partition, seen.offset - 1)
                if seen.offset <= last:
                    detail = f"{operation.process} read {seen.offset} after {last}"
                    yield Anomaly(Kind.NONMONOTONIC_READ, seen.partition, seen.value, detail)
                offsets = filled[seen.partition]
                passed = offsets[bisect_right(offsets, last) : bisect_left(offsets, seen.offset)]
                if passed:
                    detail = f"{operation.process} came to {seen.offset} from {last}, not {passed}"
                    yield Anomaly(Kind.SKIPPED_READ, seen.partition, seen.value, detail)
                of_process[seen.partition] = seen.offset

    def _filled_offsets(self) -> dict[Partition, list[int]]:
        """Return the offsets at which a value was read, in order."""
        filled: dict[Partition, set[int]] = {}
        for places in self._read_at.values():
            for partition, offset in places:
                filled.setdefault(partition, set()).add(offset)
        return {partition: sorted(offsets) for partition, offsets in filled.items()}

    def nonmonotonic_sends(self) -> Iterator[Anomaly]:
        """Yield values of one process whose offsets are not in the order of their sending."""
        positions: dict[tuple[str, Partition], int] = {}
        for operation in self._operations:
            for seen in operation.sends:
                offset = self._offset_of(seen)
                last = positions.get((operation.process, seen.partition), -1)
                if 0 <= offset < last:
                    detail = f"{operation.process} sent it to {offset}, after one to {last}"
                    yield Anomaly(Kind.NONMONOTONIC_SEND, seen.partition, seen.value, detail)
                elif offset > last:
                    positions[operation.process, seen.partition] = offset

    def _offset_of(self, seen: Seen) -> int:
        """Return the offset of a written value by its ack, or where it was read; -1 if unknown."""
        if seen.offset >= 0:
            return seen.offset
        offsets = [
            offset
            for partition, offset in self._read_at.get(seen.value, ())
            if partition == seen.partition
        ]
        return min(offsets, default=-1)
