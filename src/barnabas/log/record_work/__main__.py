"""The helper process for records: jobs come as frames on stdin, outcomes go as frames to stdout.

It ends when stdin does, which is when the node does, and in a job that takes more CPU than its
argument says (seconds; 0 for no bound). The signal of that bound tells the node why.
"""

import os
import resource
import signal
import sys
from contextlib import suppress
from io import FileIO
from typing import Final

from barnabas.log.record_work.job_framing import BATCH_BYTES_MAX, SIZES, decode_job, encode_outcome
from barnabas.log.record_work.record_jobs import Outcome
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.errors import ErrorCode, KafkaError

# Behind the loop, but before compaction (10), as a produce waits for it; costly ones come last.
_NICE: Final = 5
_NICE_UNBOUNDED: Final = 10
# Of address space: a batch of 256 MB unpacked and packed again, and zstd's largest tables.
_MEMORY_BYTES_MAX: Final = 2 << 30


def main() -> None:
    """Do one job after the other."""
    cpu_s_max = float(sys.argv[1])
    os.nice(_NICE if cpu_s_max else _NICE_UNBOUNDED)
    with suppress(OSError, ValueError):  # macOS knows no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    # Unbuffered: a batch goes through without a copy beside it.
    with open(sys.stdin.fileno(), "rb", buffering=0) as asked, suppress(BrokenPipeError):
        while sizes := _read(asked, SIZES.size):
            # In a function, whose end lets go of the batches.
            _do_one(asked, *SIZES.unpack(sizes), cpu_s_max=cpu_s_max)


def _do_one(asked: FileIO, text_bytes: int, batch_bytes: int, *, cpu_s_max: float) -> None:
    if batch_bytes > BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {batch_bytes} bytes")
    job = decode_job(bytes(_read(asked, text_bytes)))
    batch = _read(asked, batch_bytes)
    outcome: Outcome | KafkaError
    signal.setitimer(signal.ITIMER_PROF, cpu_s_max)  # nobody catches it: it ends the process
    try:
        outcome = job.do(batch)
    except KafkaError as error:
        outcome = error
    except MemoryError:
        message = f"the batch takes more than {_MEMORY_BYTES_MAX} bytes of memory"
        outcome = KafkaError(ErrorCode.INVALID_RECORD, message)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    for part in encode_outcome(outcome):
        _write(part)


def _read(file: FileIO, size: int) -> bytearray:
    """So many bytes, fewer only at the end of the file."""
    data = bytearray(size)
    filled = 0
    with memoryview(data) as view:
        while filled < size:
            count = file.readinto(view[filled:])
            if not count:
                break
            filled += count
    if filled < size:
        del data[filled:]
    return data


def _write(data: Buffer) -> None:
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += os.write(sys.stdout.fileno(), view[written:])


if __name__ == "__main__":
    main()
