"""The work of a driver before and after the tasks of a micro-batch.

Before: it takes the query over from an earlier driver, and commits the transactions of a batch that
was decided. After: it decides the batch with a record, and commits its transactions. A driver that
is killed before the record leaves open transactions, which the next one aborts; one that is killed
after it leaves transactions that the next one commits.
"""

from collections.abc import Sequence

import attrs

from barnabas.pipeline.sink import commit_record
from barnabas.pipeline.sink.commit_record import CommitRecord, PreparedTransaction, Work
from barnabas.pipeline.sink.commits_topic import CommitsTopic
from barnabas.pipeline.sink.sink_errors import SinkError
from barnabas.pipeline.sink.transaction_control import TransactionControl

_SHOWN_MAX = 5


@attrs.frozen
class BatchCommits:
    """The batches of one streaming query, as one driver commits them."""

    name: str
    driver: str
    """Names this driver in the records."""
    topic: CommitsTopic
    control: TransactionControl
    transaction_timeout_ms: int

    def before_tasks(self) -> CommitRecord:
        """Return the newest record, of this driver and without open transactions.

        Raises SinkError.
        """
        record = self.topic.newest()
        if record is not None and record.claim == self.driver and not record.prepared:
            return record
        is_taken_over = record is not None and record.claim != self.driver
        record = self.topic.update(self._claimed)
        # Only now: the ids of transactions that were decided must keep their epochs until a record
        # says that they are committed.
        if is_taken_over:
            ids = [transactional_id(self.name, task) for task in range(record.tasks)]
            self.control.take_over(ids, self.transaction_timeout_ms)
        return record

    def commit(
        self, query_id: str, batch: int, prepared: Sequence[PreparedTransaction], tasks: int
    ) -> None:
        """Decide a batch and commit its transactions.

        Raises SinkError; unless the batch is decided, the transactions are aborted.
        """
        check_open(self.control, prepared)

        def decision(last: CommitRecord | None) -> CommitRecord:
            if last is None or last.claim != self.driver or last.prepared:
                raise SinkError(
                    f"another driver has taken the query '{self.name}' over: it continues there. "
                    "If it is another query, give each a `name`"
                )
            if commit_record.decide(last, query_id, batch, self.name) is not Work.WRITE:
                raise SinkError(f"batch {batch} of '{self.name}' was committed meanwhile")
            most = max(tasks, last.tasks)
            return CommitRecord(self.driver, query_id, batch, most, tuple(prepared))

        decided = self.topic.update(decision)
        settled = self._settled(decided)
        self.topic.update(lambda _: settled)

    def abort(self, batch: int, prepared: Sequence[PreparedTransaction]) -> None:
        """Abort the transactions of a batch that failed, unless it is decided. Raises SinkError."""
        if not prepared:
            return
        self.topic.lock()  # a decision that a killed process has sent is visible then
        last = self.topic.newest()
        if last is not None and last.batch == batch and last.prepared:
            return
        self.control.end(prepared, committed=False)

    def _claimed(self, last: CommitRecord | None) -> CommitRecord:
        if last is None:
            return CommitRecord(self.driver)
        settled = self._settled(last) if last.prepared else last
        return attrs.evolve(settled, claim=self.driver)

    def _settled(self, record: CommitRecord) -> CommitRecord:
        """Commit the transactions of a decided batch; return the record without them.

        When all of them have been aborted, the batch is not written, and is repeated.
        """
        missing = self.control.end(record.prepared, committed=True)
        if len(missing) == len(record.prepared):
            return attrs.evolve(record, batch=record.batch - 1, prepared=())
        if missing:
            raise SinkError(
                f"batch {record.batch} of '{self.name}' is visible in part: the transactions "
                f"{_shown(missing)} ended before the driver could commit them, because it started "
                f"again later than kafka.transaction.timeout.ms={self.transaction_timeout_ms}, or "
                f"because speculative tasks took them over. Delete the topic {self.topic.name} to "
                f"write the whole batch again; the rows of the other "
                f"{len(record.prepared) - len(missing)} transactions are there twice then"
            )
        return attrs.evolve(record, prepared=())


def transactional_id(name: str, task: int) -> str:
    """Return the transactional id of a task's partition."""
    return f"{name}-{task}"


def check_open(control: TransactionControl, prepared: Sequence[PreparedTransaction]) -> None:
    """Raise SinkError when a prepared transaction has ended; the others are aborted then."""
    ended = control.ended(prepared)
    if ended:
        control.end([each for each in prepared if each not in ended], committed=False)
        raise SinkError(
            f"the transactions {_shown(ended)} ended before all tasks had written their rows: the "
            "batch takes longer than kafka.transaction.timeout.ms, or a later attempt of a task "
            "took them over. No row is visible. Make batches smaller, or raise "
            "kafka.transaction.timeout.ms up to the brokers' transaction.max.timeout.ms"
        )


def _shown(transactions: Sequence[PreparedTransaction]) -> str:
    names = [each.transactional_id for each in transactions]
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more
