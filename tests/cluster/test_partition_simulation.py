"""The controller keeps the rules of partitions through random faults."""

import pytest

from tests.cluster.partition_simulation import World


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
