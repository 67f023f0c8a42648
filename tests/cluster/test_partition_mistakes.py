"""The simulation of partitions finds each planted mistake, and none in the correct controller."""

import pytest

from tests.cluster.partition_mistakes import MISTAKES, Mistake, broken
from tests.cluster.partition_simulation import World


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_planted_mistake_breaks_a_rule(mistake: Mistake) -> None:
    seed, has_elr = MISTAKES[mistake]
    assert broken(mistake, seed, has_elr=has_elr) is not None
    assert broken(None, seed, has_elr=has_elr) is None


@pytest.mark.parametrize("has_elr", [True, False])
def test_controller_keeps_the_rules_through_random_faults(has_elr: bool) -> None:
    reached: dict[str, int] = {}
    for seed in range(1000, 1060):
        world = World(seed, has_elr=has_elr)
        world.run(300)
        for name, count in world.counters.items():
            reached[name] = reached.get(name, 0) + count
    wanted = ["unclean", "kill", "clean", "directory failed", "STALE_BROKER_EPOCH"]
    codes = [0, 74, 95, 107, 108]
    wanted += [f"alter {code}" for code in codes]
    wanted += ["power"] if has_elr else []
    assert {name for name in wanted if not reached.get(name)} == set()
