"""Planted points of the format `barnabas`: a Spark daemon for the tasks, a class for the driver.

Spark's processes beside the driver, which plan and commit a batch, come from Spark's own daemon.

prepared    a task has written its rows, its transaction is open
decided     the driver has written the record of the batch, no transaction is committed
halved      the first of the batch's transactions is committed
committed   all of them are committed, Spark does not know it
"""

import functools
from typing import Any

from barnabas.pipeline.sink.batch_commits import BatchCommits
from barnabas.pipeline.sink.commits_topic import CommitsTopic
from barnabas.pipeline.sink.prepared_rows import PreparingProducer
from barnabas.pipeline.sink.transaction_control import TransactionControl
from barnabas.pipeline.spark import python_daemon
from compat_tests.pipeline.planted_daemon import reached


@functools.cache
def plant() -> None:
    """Wrap what a task and the driver do with transactions, once in a process."""
    prepare, update = PreparingProducer.prepare, CommitsTopic.update
    end, commit = TransactionControl.end, BatchCommits.commit

    def prepared(self: Any) -> Any:
        found = prepare(self)
        reached("prepared")
        return found

    def updated(self: Any, following: Any) -> Any:
        record = update(self, following)
        if record.prepared:
            reached("decided")
        return record

    def ended(self: Any, transactions: Any, *, committed: bool) -> Any:
        missing = end(self, transactions[:1], committed=committed)
        if committed:
            reached("halved")
        return missing + end(self, transactions[1:], committed=committed)

    def batch_committed(self: Any, *arguments: Any) -> None:
        commit(self, *arguments)
        reached("committed")

    PreparingProducer.prepare = prepared  # type: ignore[method-assign]
    CommitsTopic.update = updated  # type: ignore[method-assign]
    TransactionControl.end = ended  # type: ignore[method-assign]
    BatchCommits.commit = batch_committed  # type: ignore[method-assign]


if __name__ == "__main__":
    plant()
    python_daemon.main()
