"""Work on the records of a batch: small ones in the server's loop, large ones in a helper.

Examining a record takes about a microsecond, so a batch of 1 MB would delay every other client by
tens of milliseconds. A job (`record_jobs`) is a value that says what to find out or to build; the
same code runs it in the loop and in the helper. Code in the loop that meets a batch too large for
it raises `RecordWorkNeeded`. The caller has the job run by the helper (`barnabas.server.storage.
record_worker`) and calls again with the outcome. No state is kept in between, so the second call
sees what changed since: the topic's configuration, the leader, the log end.

These helpers are separate from those that compact, because a produce request cannot wait minutes
for a cleaning pass.
"""

from barnabas.log.record_work.record_jobs import (
    LOOP_BYTES_MAX,
    LOOP_RECORDS_MAX,
    UNPACKED_MAX,
    CompleteBatch,
    FindTime,
    Found,
    Job,
    Outcome,
    Outcomes,
    RecordWorkNeeded,
    run_in_loop,
)
from barnabas.log.record_work.record_refusal import RecordsRefusedError

__all__ = [
    "LOOP_BYTES_MAX",
    "LOOP_RECORDS_MAX",
    "UNPACKED_MAX",
    "CompleteBatch",
    "FindTime",
    "Found",
    "Job",
    "Outcome",
    "Outcomes",
    "RecordWorkNeeded",
    "RecordsRefusedError",
    "run_in_loop",
]
