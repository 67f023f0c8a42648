"""The invariants of transactions (see `transaction_simulation`) over many seeds.

And that breaking one is seen: each of the mistakes below is a way in which a server could get
transactions wrong, put into the real code for one test.
"""

import os
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from barnabas.coordinator.core.coordinator_output import Output
from barnabas.coordinator.groups.committed_offsets import Offsets
from barnabas.coordinator.transactions import transaction_shard as shard_module
from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, Outstanding
from barnabas.coordinator.transactions.transaction import Transaction
from barnabas.coordinator.transactions.transaction_shard import TransactionShard
from barnabas.log.segment.producer_state import ProducerState
from barnabas.protocol.errors import ErrorCode
from barnabas.server.coordinators.transactions.verification_guards import Guards
from tests.coordinator.faulty_world import ViolationError
from tests.coordinator.transactions.transaction_simulation import Client, Partition, Simulation

SEEDS = int(os.environ.get("BARNABAS_SEEDS", "300"))
SEEDS_TO_CATCH = 400


@pytest.mark.timeout(600)  # seconds of CPU, which take minutes on a busy machine
def test_transaction_simulation_with_faults_keeps_the_invariants() -> None:
    for seed in range(SEEDS):
        try:
            Simulation(seed).run()
        except ViolationError as violation:
            raise AssertionError(f"seed {seed}") from violation


def seen() -> str:
    """The invariant whose violation is seen first; nothing if none is."""
    for seed in range(SEEDS_TO_CATCH):
        try:
            Simulation(seed).run()
        except ViolationError as violation:
            return str(violation)[:2]
        except Exception:  # the mistake may also break something else first
            continue
    return ""


Plant = Callable[[pytest.MonkeyPatch], None]


def a_fence_without_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    fenced = Transaction.fenced

    def mistaken(self: Transaction, *given: Any, **named: Any) -> Transaction:
        return attrs.evolve(fenced(self, *given, **named), producer_epoch=self.producer_epoch)

    patch.setattr(Transaction, "fenced", mistaken)


def a_new_producer_without_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    def mistaken(self: Transaction, timeout_ms: int, *, by_owner: bool, now_ms: int) -> Transaction:
        if self.producer_epoch < 0:
            return attrs.evolve(self, producer_epoch=0, timeout_ms=timeout_ms)
        return attrs.evolve(self, timeout_ms=timeout_ms)

    patch.setattr(Transaction, "bumped", mistaken)


def no_way_on_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "loaded", lambda *_: None)


def markers_forgotten_once_one_is_written(patch: pytest.MonkeyPatch) -> None:
    def mistaken(self: Outstanding, answered: MarkersAnswered) -> bool:
        self.partitions.clear()
        return False

    patch.setattr(Outstanding, "take", mistaken)


def failed_markers_taken_as_written(patch: pytest.MonkeyPatch) -> None:
    settled = frozenset({ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT})
    patch.setattr("barnabas.coordinator.transactions.pending_markers._SETTLED", settled)


def failed_markers_never_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "_send_again", lambda *_: Output())


def no_timeouts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "_schedule_timeout", lambda *_: None)


def a_commit_that_is_written_as_an_abort(patch: pytest.MonkeyPatch) -> None:
    markers_of = shard_module.markers_of

    def mistaken(prepared: Transaction, *rest: Any) -> Any:
        return attrs.evolve(markers_of(prepared, *rest), commit=False)

    patch.setattr(shard_module, "markers_of", mistaken)


def an_end_that_keeps_its_epoch(patch: pytest.MonkeyPatch) -> None:
    ending = Transaction.ending

    def mistaken(self: Transaction, **given: Any) -> Transaction:
        return attrs.evolve(ending(self, **given), producer_epoch=self.producer_epoch)

    patch.setattr(Transaction, "ending", mistaken)


def a_repeated_end_that_ends_the_next_transaction(patch: pytest.MonkeyPatch) -> None:
    ending = shard_module.decide_ending

    def mistaken(present: Transaction, request: Any, *, is_v2: bool) -> Any:
        if request.producer_id == present.producer_id and is_v2:
            request = attrs_like(request, producer_epoch=present.producer_epoch)
        return ending(present, request, is_v2=is_v2)

    patch.setattr(shard_module, "decide_ending", mistaken)


def attrs_like(request: Any, **changes: Any) -> Any:
    fields = {name: getattr(request, name) for name in type(request).FIELDS} | changes
    return type(request)(**fields)


def writes_of_stale_producers_let_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shard_module, "check_current", lambda *_: None)


def partitions_added_while_the_outcome_is_written(patch: pytest.MonkeyPatch) -> None:
    of = TransactionShard._of

    def mistaken(self: TransactionShard, transactional_id: str) -> Transaction:
        present = of(self, transactional_id)
        if present.state.is_prepared:
            return attrs.evolve(present, state=shard_module.ONGOING, partitions=frozenset())
        return present

    add_partitions = TransactionShard.add_partitions

    def mistaken_add(self: TransactionShard, *arguments: Any) -> Output:
        with patch.context() as during:
            during.setattr(TransactionShard, "_of", mistaken)
            return add_partitions(self, *arguments)

    patch.setattr(TransactionShard, "add_partitions", mistaken_add)


def guards_that_no_marker_breaks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Guards, "transaction_ended", lambda *_: None)


def late_markers_let_in(patch: pytest.MonkeyPatch) -> None:
    mark = Partition.mark

    def mistaken(self: Partition, markers: Any, epoch: int) -> None:
        mark(self, attrs.evolve(markers, transaction_version=0), epoch)

    patch.setattr(Partition, "mark", mistaken)
    patch.setattr(ProducerState, "check_epoch", lambda *_: None)


def a_stable_offset_that_ignores_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "first_unstable_offset", lambda _: None)


def an_epoch_given_to_two(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Transaction,
        "is_retry_of_end",
        lambda self, producer_id, epoch: (
            producer_id == self.producer_id and self.producer_epoch == epoch + 1
        ),
    )


def aborted_offsets_that_count(patch: pytest.MonkeyPatch) -> None:
    end = Offsets.end_transaction
    patch.setattr(
        Offsets,
        "end_transaction",
        lambda self, producer_id, **_: end(self, producer_id, commit=True),
    )


def committed_offsets_that_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Offsets, "end_transaction", lambda *_, **__: None)


def clients_that_repeat_under_a_new_sequence(patch: pytest.MonkeyPatch) -> None:
    def mistaken(self: Client) -> None:
        for partition in self.added:
            self.sequences[partition] = self.sequences.get(partition, 0) + 1
        self.write()

    patch.setattr(Client, "write_timed_out", mistaken)


@pytest.mark.parametrize(
    ("plant", "caught_by"),
    [
        (a_fence_without_a_new_epoch, {"T1", "T2", "T5"}),
        (a_new_producer_without_a_new_epoch, {"T1", "T2", "T3", "T5"}),
        (no_way_on_after_a_restart, {"T1", "T6"}),
        (markers_forgotten_once_one_is_written, {"T1", "T2", "T6"}),
        (failed_markers_taken_as_written, {"T1", "T2", "T6"}),
        (failed_markers_never_sent_again, {"T1", "T2", "T6"}),
        (no_timeouts, {"T6"}),
        (a_commit_that_is_written_as_an_abort, {"T1"}),
        (an_end_that_keeps_its_epoch, {"T1", "T2", "T3", "T5", "T6"}),
        (a_repeated_end_that_ends_the_next_transaction, {"T1", "T2", "T3", "T6"}),
        (writes_of_stale_producers_let_in, {"T1", "T2", "T3", "T5"}),
        (partitions_added_while_the_outcome_is_written, {"T1", "T2", "T6"}),
        (guards_that_no_marker_breaks, {"T1", "T2", "T5", "T6"}),
        (late_markers_let_in, {"T1", "T2", "T3"}),
        (a_stable_offset_that_ignores_open_transactions, {"T1", "T2"}),
        (aborted_offsets_that_count, {"T1"}),
        (committed_offsets_that_are_forgotten, {"T1"}),
        (an_epoch_given_to_two, {"T1", "T2", "T3", "T5"}),
        (clients_that_repeat_under_a_new_sequence, {"T3"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_transaction_simulation_planted_mistake_is_noticed(
    plant: Plant, caught_by: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert seen() in caught_by
