"""Work on a batch's records: small batches in the server's loop, larger ones in a helper process.

A record takes about a microsecond to look at, so a batch of 1 MB would keep every other client
waiting for tens of milliseconds. A job (`jobs`) is a value that says what is to be found out; it is
done by the same code wherever it runs. Code of the loop that meets a batch too large for it raises
`RecordWorkNeeded`; whoever called has the job done by the helper process (`barnabas.server.
record_helper`) and calls again with its outcome. Nothing is kept meanwhile, so what changed since
(the topic's configuration, its leader, the partition's end) is seen by the second call.

The process (`__main__`) is not the one that compacts: a produce cannot wait for a cleaning pass,
which lasts minutes. It is given copies of batches over a pipe (`frames`), and returns what it made.
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
    do_in_loop,
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
    "do_in_loop",
]
