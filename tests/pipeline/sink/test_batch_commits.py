"""Batches of a query whose driver is killed at any step: each row is visible once.

The cluster is a model: transactional ids with epochs, open transactions, records of the query.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.sink import commit_record
from barnabas.pipeline.sink.batch_commits import BatchCommits, transactional_id
from barnabas.pipeline.sink.commit_record import CommitRecord, PreparedTransaction, Work
from barnabas.pipeline.sink.sink_errors import SinkError

NAME, QUERY = "q", "id"
ROWS = 6
BATCHES = 3
TIMEOUT_MS = 60_000


class KilledError(BaseException):
    """The driver ends here: no handler may run."""


@attrs.define
class Cluster:
    """The state of brokers, and the number of steps until the driver is killed."""

    epochs: dict[str, int] = attrs.Factory(dict)
    open: dict[str, list[Any]] = attrs.Factory(dict)
    outcomes: dict[tuple[str, int], bool] = attrs.Factory(dict)
    visible: list[Any] = attrs.Factory(list)
    records: list[CommitRecord] = attrs.Factory(list)
    steps_left: int | None = None

    def step(self) -> None:
        if self.steps_left is not None:
            if self.steps_left == 0:
                self.steps_left = None
                raise KilledError
            self.steps_left -= 1

    def begin(self, identity: str, rows: list[Any]) -> PreparedTransaction:
        """Write rows as a task does, which aborts the open transaction of its id."""
        self.abort_open(identity)
        self.open[identity] = rows
        return PreparedTransaction(identity, 0, self.epochs[identity])

    def abort_open(self, identity: str) -> None:
        if self.open.pop(identity, None) is not None:
            self.outcomes[identity, self.epochs[identity]] = False
        self.epochs[identity] = self.epochs.get(identity, -1) + 1

    # The calls of TransactionControl

    def end(
        self, transactions: Sequence[PreparedTransaction], *, committed: bool
    ) -> list[PreparedTransaction]:
        missing: list[PreparedTransaction] = []
        for each in transactions:
            self.step()
            identity = each.transactional_id
            if each.producer_epoch != self.epochs[identity]:
                missing.append(each)
            elif identity in self.open:
                rows = self.open.pop(identity)
                self.visible += rows if committed else []
                self.outcomes[identity, each.producer_epoch] = committed
            elif self.outcomes[identity, each.producer_epoch] is not committed:
                missing.append(each)
        return missing

    def ended(self, transactions: Sequence[PreparedTransaction]) -> list[PreparedTransaction]:
        return [
            each
            for each in transactions
            if each.transactional_id not in self.open
            or self.epochs[each.transactional_id] != each.producer_epoch
        ]

    def take_over(self, transactional_ids: Sequence[str], timeout_ms: int) -> None:
        for each in transactional_ids:
            self.step()
            self.abort_open(each)

    # The calls of CommitsTopic

    @property
    def name(self) -> str:
        return f"{NAME}-commits"

    def newest(self) -> CommitRecord | None:
        return self.records[-1] if self.records else None

    def update(self, following: Callable[[CommitRecord | None], CommitRecord]) -> CommitRecord:
        record = following(self.newest())
        self.step()
        self.records.append(record)
        self.step()
        return record

    def lock(self) -> None:
        """Nothing is sent and not committed."""


def commits_of(cluster: Cluster, driver: int) -> BatchCommits:
    either: Any = cluster
    return BatchCommits(NAME, str(driver), either, either, TIMEOUT_MS)


def run_batch(cluster: Cluster, driver: int, batch: int, tasks: int) -> None:
    """Run a batch as Spark does, with rows that name the driver: no two attempts are equal."""
    commits = commits_of(cluster, driver)
    record = commits.before_tasks()
    prepared: list[PreparedTransaction] = []
    for task in range(tasks):
        cluster.step()
        if commit_record.decide(record, QUERY, batch, NAME) is Work.WRITE:
            rows = [(batch, row, driver) for row in range(task, ROWS, tasks)]
            prepared.append(cluster.begin(transactional_id(NAME, task), rows))
    if prepared:
        commits.commit(QUERY, batch, prepared, tasks)
    cluster.step()  # Spark writes its commit log


@given(st.lists(st.tuples(st.integers(0, 25), st.integers(1, 4)), max_size=6))
def test_every_row_is_visible_once_when_drivers_are_killed_at_any_step(
    kills: list[tuple[int, int]],
) -> None:
    cluster = Cluster()
    driver = batch = 0
    tasks = 2
    waiting = list(kills)
    while batch < BATCHES:
        if waiting and cluster.steps_left is None:
            cluster.steps_left, tasks = waiting.pop(0)
        try:
            run_batch(cluster, driver, batch, tasks)
            batch += 1
        except KilledError:
            driver += 1
    counts = Counter((batch, row) for batch, row, _ in cluster.visible)
    assert counts == {(batch, row): 1 for batch in range(BATCHES) for row in range(ROWS)}
    attempts = {(batch, driver) for batch, _, driver in cluster.visible}
    assert len(attempts) == BATCHES  # the rows of a batch are those of one attempt


def test_driver_that_another_one_has_replaced_commits_nothing() -> None:
    cluster = Cluster()
    old, new = commits_of(cluster, 1), commits_of(cluster, 2)
    old.before_tasks()
    prepared = [cluster.begin("q-0", ["old"])]
    new.before_tasks()
    with pytest.raises(SinkError, match="another driver has taken the query 'q' over"):
        old.commit(QUERY, 0, prepared, 1)
    old.abort(0, prepared)
    new.commit(QUERY, 0, [cluster.begin("q-0", ["new"])], 1)
    assert cluster.visible == ["new"]


def test_open_transactions_of_killed_driver_end_before_the_first_batch() -> None:
    """They would hide later records of other producers from read_committed."""
    cluster = Cluster()
    run_batch(cluster, 1, 0, 3)
    commits_of(cluster, 1).before_tasks()
    cluster.begin("q-2", ["left"])
    commits_of(cluster, 2).before_tasks()
    assert cluster.open == {}


def test_transaction_that_timed_out_before_the_decision_fails_the_batch() -> None:
    cluster = Cluster()
    commits = commits_of(cluster, 1)
    commits.before_tasks()
    prepared = [cluster.begin(f"q-{task}", [task]) for task in range(2)]
    cluster.abort_open("q-1")
    with pytest.raises(SinkError, match=r"the transactions q-1 ended before all tasks"):
        commits.commit(QUERY, 0, prepared, 2)
    assert (cluster.visible, cluster.open) == ([], {})


def decided(cluster: Cluster, timed_out: Sequence[str], committed: int) -> None:
    """Leave a decided batch of which some transactions have ended."""
    prepared = tuple(cluster.begin(f"q-{task}", [task]) for task in range(3))
    cluster.records.append(CommitRecord("1", QUERY, 5, 3, prepared))
    cluster.end(prepared[:committed], committed=True)
    for each in timed_out:
        cluster.abort_open(each)


def test_decided_batch_of_which_all_transactions_timed_out_is_repeated() -> None:
    cluster = Cluster()
    decided(cluster, ["q-0", "q-1", "q-2"], 0)
    record = commits_of(cluster, 2).before_tasks()
    assert commit_record.decide(record, QUERY, 5, NAME) is Work.WRITE


def test_decided_batch_of_which_some_transactions_timed_out_is_refused() -> None:
    cluster = Cluster()
    decided(cluster, ["q-1", "q-2"], 1)
    with pytest.raises(SinkError, match="batch 5 of 'q' is visible in part") as raised:
        commits_of(cluster, 2).before_tasks()
    assert "Delete the topic q-commits" in str(raised.value)


def test_failed_commit_after_the_decision_does_not_abort_the_batch() -> None:
    cluster = Cluster()
    decided(cluster, [], 1)
    commits_of(cluster, 1).abort(5, cluster.records[-1].prepared)
    commits_of(cluster, 1).before_tasks()
    assert cluster.visible == [0, 1, 2]
