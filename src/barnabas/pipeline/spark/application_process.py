"""The process of `own_application`: one job in its own Spark application."""

import os
import sys
import threading
from typing import Final

from barnabas.pipeline.delivery.plan.job_plan import JobFailure, RunningJob
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.spark import application_messages
from barnabas.pipeline.spark.engine import Engine

_REPORT_S: Final = 0.5


def main() -> int:
    """Run the job that the first line of the input describes, until the input ends."""
    # What libraries print goes to standard error: standard output is for the runner.
    answers = os.dup(1)
    os.dup2(2, 1)
    settings, plan = application_messages.decode_start(sys.stdin.buffer.readline())
    ended = threading.Event()
    threading.Thread(target=_wait_end, args=(ended,), daemon=True).start()
    engine = Engine(settings)
    try:
        engine.start()
        job = engine.start_job(plan)
    except Exception as error:
        engine.stop()
        failure = error.failure if isinstance(error, JobStartError) else None
        refusal = failure or JobFailure(str(error) or repr(error), is_permanent=False)
        os.write(answers, application_messages.encode_refusal(refusal) + b"\n")
        return 1
    _report(job, answers, ended)
    engine.stop()
    return 0


def _wait_end(ended: threading.Event) -> None:
    sys.stdin.buffer.read()
    ended.set()


def _report(job: RunningJob, answers: int, ended: threading.Event) -> None:
    """Write the state of the job until the input ends or the job has failed."""
    while True:
        line = application_messages.encode_state(job)
        os.write(answers, line + b"\n")
        if job.failure() is not None or not job.is_running() or ended.wait(_REPORT_S):
            return


if __name__ == "__main__":
    sys.exit(main())
