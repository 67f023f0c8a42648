"""`make soak-pipelines`: random kill cycles of each kind of job, one kind after the other.

`SECONDS` is the time of each kind; `ARGS="--kinds micro-batches --seed 7"` chooses and repeats. At
the end of each kind every record must have had its effect once, in the order of its key.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from compat_tests.pipeline.forward_kills import ForwardJob
from compat_tests.pipeline.micro_batch_kills import CountingJob
from compat_tests.pipeline.slices_kills import FileSinkJob, FileSourceJob
from compat_tests.pipeline.source_kills import RowSourceJob
from compat_tests.servers import BarnabasProcess

KINDS: dict[str, type[ForwardJob]] = {
    "forward": ForwardJob,
    "micro-batches": CountingJob,
    "slices": FileSourceJob,
    "sink": FileSinkJob,
    "rows": RowSourceJob,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    for kind in options.kinds:
        print(f"{kind}: seed {options.seed}", flush=True)
        random.seed(options.seed)
        cycles, sent = soaked(KINDS[kind], options.seconds)
        print(f"{kind}: {cycles} cycles, {sent} records: each once", flush=True)
    return 0


def soaked(kind: type[ForwardJob], seconds: float) -> tuple[int, int]:
    """Run cycles against a job for some time; return their number and that of the records."""
    server = BarnabasProcess()
    server.start()
    try:
        with TemporaryDirectory(prefix="barnabas-pipeline-") as directory:
            job = kind(server, Path(directory), "soak")
            cycles = soak(job, seconds)
            return cycles, job.check()
    finally:
        server.close()


def soak(job: ForwardJob, seconds: float) -> int:
    """Run random cycles for some time; return their number. The first round has each once."""
    left = job.cycles()
    random.shuffle(left)
    began, cycles = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        cycle = left.pop() if left else random.choice(job.cycles())
        cycle()
        cycles += 1
        print(f"{time.monotonic() - began:.0f} s: {cycles} cycles", flush=True)
    return cycles


if __name__ == "__main__":
    sys.exit(main())
