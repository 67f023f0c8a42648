"""The simulated brokers hold their invariants."""

import pytest

from tests.cluster.broker_world import BrokerWorld


@pytest.mark.parametrize("seed", range(25))
def test_world_holds_its_invariants(seed: int) -> None:
    BrokerWorld(seed).run()
