"""The scenarios of the whole simulation."""

from collections.abc import Callable
from inspect import getmembers, isfunction

import pytest

from barnabas.testing.simulation import Simulation, runner
from barnabas.testing.simulation.sim_cluster import SimCluster
from tests.simulation import cluster_scenarios

SCENARIOS = [
    function
    for name, function in getmembers(cluster_scenarios, isfunction)
    if function.__module__ == cluster_scenarios.__name__ and not name.startswith("_")
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_scenario_prepares_one_cluster(
    scenario: Callable[[int], Simulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one would keep its files until it is collected."""
    made: list[SimCluster] = []

    def make(*args: object) -> SimCluster:
        made.append(SimCluster(*args))
        return made[-1]

    monkeypatch.setattr(runner, "SimCluster", make)
    simulation = scenario(1)
    for cluster in made:
        cluster.close()
    assert made == [simulation.cluster]
