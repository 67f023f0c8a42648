"""The program of a helper process: read job frames on stdin, write answer frames to stdout.

Arguments: the name of the kind (for `ps` and logs), its niceness, the CPU seconds that a job may
use, and the address space in bytes (0: no limit). The process ends when stdin ends, which is when
the node ends. A job over its CPU limit ends the process with SIGPROF, so the node knows why.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO

from barnabas.log.helper_framing import (
    CLEAN_JOB,
    PAYLOAD_BYTES_MAX,
    RECORDS_JOB,
    SCRUB_JOB,
    SIZES,
    Answer,
    Fields,
    decode_fields,
    encode_head,
)
from barnabas.log.throttle import OrphanedError
from barnabas.protocol.batches.compression import Buffer

Runner = Callable[[Fields, Buffer], Iterator[Answer]]


def main() -> None:
    """Run jobs one after the other."""
    _, _, niceness, cpu_s_max, memory_bytes_max = sys.argv
    os.nice(int(niceness))
    if memory := int(memory_bytes_max):
        with suppress(OSError, ValueError):  # macOS does not have this limit
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # Unbuffered, so that no second copy of a batch is made.
    with (
        open(sys.stdin.fileno(), "rb", buffering=0) as jobs,
        suppress(BrokenPipeError, OrphanedError),
    ):
        while head := _read(jobs, SIZES.size):
            # A function, so that it releases the batches when it returns.
            _run_one(jobs, *SIZES.unpack(head), cpu_s_max=float(cpu_s_max))


def _run_one(jobs: FileIO, text_bytes: int, payload_bytes: int, *, cpu_s_max: float) -> None:
    if payload_bytes > PAYLOAD_BYTES_MAX:
        raise ValueError(f"the payload has {payload_bytes} bytes, more than {PAYLOAD_BYTES_MAX}")
    fields = decode_fields(_read(jobs, text_bytes))
    answers = _runner(fields.pop("job"))(fields, _read(jobs, payload_bytes))
    while True:
        signal.setitimer(signal.ITIMER_PROF, cpu_s_max)  # its signal ends the process
        try:
            answer = next(answers)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        more = {} if answer.is_last else {"more": True}
        _write(encode_head({**answer.fields, **more}, len(answer.payload)))
        _write(answer.payload)
        if answer.is_last:
            return


def _runner(job: str) -> Runner:
    """Return the function that runs jobs of this kind; a process imports only what it needs."""
    if job == RECORDS_JOB:
        from barnabas.log.record_work.job_messages import run_record_job as runner
    elif job == CLEAN_JOB:
        from barnabas.log.compaction.cleaner import run_clean_job as runner
    elif job == SCRUB_JOB:
        from barnabas.log.scrubbing.scrub_check import run_scrub_job as runner
    else:
        raise ValueError(f"unknown job {job}")
    return runner


def _read(file: FileIO, size: int) -> bytearray:
    """Return `size` bytes; fewer only at the end of the file."""
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
