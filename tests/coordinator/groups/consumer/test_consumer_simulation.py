"""Both protocols in one group over many seeds (see `consumer_simulation`), and planted mistakes."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

from barnabas.coordinator.core.steps import Steps, run_through
from barnabas.coordinator.groups.committed_offsets import Offsets
from barnabas.coordinator.groups.consumer import migration, reconciliation
from barnabas.coordinator.groups.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.groups.consumer.consumer_group_operations import ConsumerGroups
from barnabas.coordinator.groups.consumer.member_removal import Removals
from barnabas.coordinator.groups.consumer.reconciliation import Reconciliation
from barnabas.coordinator.groups.consumer.subscribed_topics import Topics
from tests.coordinator.faulty_world import ViolationError
from tests.coordinator.groups.consumer.consumer_simulation import World

SEEDS = int(os.environ.get("BARNABAS_SEEDS", "200"))


@pytest.mark.timeout(600)  # seconds of CPU, which take minutes on a busy machine
def test_consumer_simulation_with_faults_keeps_the_invariants() -> None:
    kinds: set[frozenset[str]] = set()
    for seed in range(SEEDS):
        world = World(seed)
        try:
            world.run()
        except ViolationError as violation:
            raise AssertionError(f"seed {seed}") from violation
        kinds.add(frozenset(world.checker.kinds))
    # Some groups have been of one type only, others have turned from one to the other.
    assert {frozenset({"consumer"}), frozenset({"consumer", "classic"})} <= kinds


def caught(invariant: str, seeds: Iterable[int] = range(40)) -> bool:
    for seed in seeds:
        try:
            World(seed).run()
        except ViolationError as violation:
            if str(violation).startswith(invariant):
                return True
        except Exception:  # the mistake may also break something else first
            continue
    return False


def test_consumer_simulation_partition_of_another_member_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Reconciliation, "_is_free", lambda *_: True)
    monkeypatch.setattr(ConsumerGroup, "_take", lambda *_: None)
    assert caught("G1")


def test_consumer_simulation_unconfirmed_revocation_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconciliation, "is_held", lambda *_: False)
    assert caught("G1")


def test_consumer_simulation_stale_commit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "validate_offset_commit", lambda *_, **__: None)
    assert caught("G3")


def test_consumer_simulation_lost_commit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Offsets.replay

    def forgetful(self: Offsets, key: Any, value: Any, offset: int, producer_id: int) -> None:
        if offset % 7:
            replay(self, key, value, offset, producer_id)

    monkeypatch.setattr(Offsets, "replay", forgetful)
    assert caught("G2")


def test_consumer_simulation_member_that_never_expires_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Removals, "renew_session", lambda *_, **__: None)
    assert caught("G5")


def test_consumer_simulation_expiry_without_retry_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expire = Removals._expire

    def once(self: Removals, group_id: str, member_id: str, why: str, now_ms: int) -> Any:
        out = run_through(expire(self, group_id, member_id, why, now_ms))
        out.refused = None
        return out

    monkeypatch.setattr(Removals, "_expire", once)
    assert caught("G5")


def test_consumer_simulation_unreleased_partition_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = ConsumerGroup._release

    def keeps(self: ConsumerGroup, owned: Any, epoch: int) -> None:
        # The partitions of a member that was removed stay taken.
        if epoch % 5:
            release(self, owned, epoch)

    monkeypatch.setattr(ConsumerGroup, "_release", keeps)
    monkeypatch.setattr(ConsumerGroup, "_take", _overwrite)
    assert caught("G5")


def _overwrite(self: ConsumerGroup, owned: Any, epoch: int) -> None:
    for topic_id, partitions in owned.items():
        epochs = self._partition_epochs.setdefault(topic_id, {})
        epochs.update(dict.fromkeys(partitions, epoch))


def test_consumer_simulation_unseen_topic_growth_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unseen(*_: object) -> Steps[int]:
        return 0
        yield

    monkeypatch.setattr(Topics, "metadata_hash", unseen)
    assert caught("G5")


def test_consumer_simulation_upgrade_by_assignments_only_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Apache Kafka's behaviour; it fails only in a rebalance during a rebalance."""
    subscription = migration._subscription

    def silent(*args: Any) -> Any:
        told = subscription(*args)
        told.owned_partitions = []
        return told

    monkeypatch.setattr(migration, "_subscription", silent)
    assert caught("G1", (287,))


def test_consumer_simulation_session_lost_on_load_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ConsumerGroups, "loaded", lambda *_: None)
    assert caught("G5", range(200))
