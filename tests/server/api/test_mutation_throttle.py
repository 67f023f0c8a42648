"""Quotas of partitions: strict and permissive, as Kafka's `ControllerMutationQuotaManagerTest`."""

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.security.quota_index import QuotaIndex
from barnabas.server.api.mutation_throttle import MutationQuota, Mutations
from barnabas.server.api.node_quotas import ThrottleCounts

CONTEXT: Any = SimpleNamespace(
    connection=SimpleNamespace(principal=SimpleNamespace(name="ann")), client_id="c"
)


class Quota(MutationQuota):
    """A quota of ten partitions a second, with a clock that tests set."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.counts = ThrottleCounts()
        super().__init__(10, 1000, lambda: self.now_ms, self.counts)
        self.limit_by(QuotaIndex([((("user", "ann"),), 10.0)]))

    def request(self, *, is_strict: bool) -> Mutations:
        mutations = self.mutations(CONTEXT, is_strict=is_strict)
        assert mutations is not None
        return mutations


def test_strict_quota_admits_until_it_is_used_up() -> None:
    quota = Quota()
    mutations = quota.request(is_strict=True)
    mutations.charge(90)
    mutations.charge(110)  # more than there is, but there is something
    assert mutations.throttle_ms() == 0
    with pytest.raises(KafkaError) as refused:
        mutations.charge(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert mutations.throttle_ms() == 10_000
    quota.now_ms = 4000
    assert mutations.throttle_ms() == 6000
    quota.now_ms = 10_000
    assert mutations.throttle_ms() == 0
    quota.request(is_strict=True).charge(1)


def test_refused_partitions_do_not_count() -> None:
    quota = Quota()
    quota.request(is_strict=True).charge(101)
    for _ in range(5):
        mutations = quota.request(is_strict=True)
        with pytest.raises(KafkaError):
            mutations.charge(1000)
        assert mutations.throttle_ms() == 100


def test_permissive_quota_admits_and_holds_back() -> None:
    quota = Quota()
    mutations = quota.request(is_strict=False)
    mutations.charge(100)
    assert mutations.throttle_ms() == 0
    mutations.charge(10)
    mutations.charge(10)
    assert mutations.throttle_ms() == 2000


def test_client_is_held_back_after_its_request() -> None:
    quota = Quota()
    context: Any = SimpleNamespace(throttle_ms=0)
    mutations = quota.request(is_strict=False)
    mutations.charge(120)
    quota.now_ms = 500
    quota.finish(context, mutations)
    assert context.throttle_ms == 1500
    assert (quota.counts.number, quota.counts.total_ms) == (1, 1500)


def test_client_without_a_quota_has_no_count() -> None:
    quota = Quota()
    quota.limit_by(QuotaIndex([((("user", "bob"),), 10.0)]))
    assert quota.mutations(CONTEXT, is_strict=True) is None
