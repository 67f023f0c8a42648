"""A Spark daemon whose workers kill or suspend processes at planted points of a transaction.

A point is planted by a file of its name in the directory `BARNABAS_POINTS`; the file's text is the
action. The first worker that reaches the point removes the file and acts, so a point acts once.

    begun             the transaction is open, no record is produced
    produced          all records are acknowledged, the offsets are not sent
    offsets-sent      the offsets are sent, the commit is not requested
    committed         the transaction is committed, Spark does not know it

A file `note-packages` makes each daemon note where its packages are. A file `offsets-outside`
plants a mistake: offsets are committed outside the transaction.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka

from barnabas.pipeline.delivery import worker_tasks
from barnabas.pipeline.delivery.writing.transactional_producer import (
    Transaction,
    TransactionalProducer,
)
from barnabas.pipeline.spark import python_daemon

POINTS = ("begun", "produced", "offsets-sent", "committed")
_directory = Path(os.environ.get("BARNABAS_POINTS", "."))


def reached(point: str) -> str | None:
    """Act when the point is planted; return the action."""
    path = _directory / point
    try:
        action = path.read_text()
        path.unlink()
    except FileNotFoundError:
        return None
    (_directory / f"{point}.reached").write_text(str(os.getpid()))
    if action == "kill-driver":
        jvm = _parent(_parent(os.getpid()))
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(os.environ["BARNABAS_DRIVER"]), signal.SIGKILL)
        os.kill(jvm, signal.SIGKILL)
    if action == "kill-jvm":
        os.kill(_parent(_parent(os.getpid())), signal.SIGKILL)
    if action == "kill-executor":
        executor = _parent(_parent(os.getpid()))
        for process in (_parent(executor), executor):  # Spark's worker would start another
            os.kill(process, signal.SIGKILL)
    if action in ("kill-worker", "kill-driver", "kill-executor"):
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "suspend-worker":
        # In another session, because the kernel resumes suspended processes of a process group
        # whose parent has gone, and the daemon ends its group when the driver has gone.
        os.setsid()
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.1)
    return action


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def plant() -> None:
    """Wrap the calls of a transaction."""
    begin, send_offsets = TransactionalProducer.begin, TransactionalProducer.send_offsets
    commit = TransactionalProducer.commit

    def begun(self: Any) -> None:
        begin(self)
        self.calls = 0
        reached("begun")

    def sent(self: Any, offsets: Any, group: Any) -> None:
        # The first offsets of a forward transaction are its probe.
        self.calls += 1
        if self.calls == 2:
            self._producer.flush(10)
            reached("produced")
        send_offsets(self, offsets, group)
        if self.calls == 2:
            reached("offsets-sent")

    def committed(self: Any) -> None:
        if self.calls == 0:  # a slice, whose offsets are records
            self._producer.flush(10)
            reached("produced")
        _noted(lambda: commit(self))
        reached("committed")

    def sent_outside(self: Any, offsets: Any) -> None:
        self.reader.commit(offsets=list(offsets), asynchronous=False)
        reached("offsets-sent")

    if (_directory / "note-packages").exists():
        packages = (worker_tasks.__file__, confluent_kafka.__file__)
        (_directory / f"packages-{os.getpid()}").write_text("\n".join(packages))
    if (_directory / "offsets-outside").exists():
        Transaction.send_offsets = sent_outside  # type: ignore[method-assign]
    TransactionalProducer.begin = begun  # type: ignore[method-assign]
    TransactionalProducer.send_offsets = sent  # type: ignore[method-assign]
    TransactionalProducer.commit = committed  # type: ignore[method-assign]


def _noted(commit: Callable[[], None]) -> None:
    """Commit; note the outcome for the test of suspended workers."""
    try:
        commit()
    except Exception as error:
        with (_directory / "failed-commits").open("a") as notes:
            notes.write(f"{os.getpid()} {type(error).__name__}\n")
        raise


if __name__ == "__main__":
    plant()
    python_daemon.main()
