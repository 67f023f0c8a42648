"""The simulated brokers hold their invariants, and each planted mistake breaks one."""

import pytest

from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.failure_evidence import BrokerAddress, FailureEvidence
from barnabas.cluster.controller.sessions import SessionKey
from tests.cluster.broker_world import BrokerWorld, ViolationError
from tests.cluster.controller_mistakes import MISTAKES, CountsOneReset

SEEDS = range(25)


@pytest.mark.parametrize("seed", SEEDS)
def test_world_holds_its_invariants(seed: int) -> None:
    BrokerWorld(seed).run()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_world_reveals_a_planted_mistake(mistake: type[Controller]) -> None:
    with pytest.raises(ViolationError):
        run_all(mistake)


def run_all(controller_type: type[Controller]) -> None:
    for seed in SEEDS:
        BrokerWorld(seed, controller_type).run()


def is_gone_after_resets(evidence: FailureEvidence) -> bool:
    """Reset the connection to a live broker many times."""
    key = SessionKey(2, 40)
    evidence.follow({key: BrokerAddress("127.0.0.1", 9092)}, 0)
    for now_ms in range(0, 10_000, 50):
        if evidence.take_due(now_ms):
            evidence.on_connected(key, now_ms)
        evidence.on_closed(key, now_ms + 20)
        if evidence.gone:
            return True
    return False


def test_evidence_reveals_that_one_reset_counts() -> None:
    assert is_gone_after_resets(CountsOneReset())
    assert not is_gone_after_resets(FailureEvidence())
