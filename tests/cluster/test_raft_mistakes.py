"""The simulation finds each planted mistake, and no violation in the correct core."""

import pytest

from barnabas.cluster.quorum.raft import RaftCore
from tests.cluster.raft_mistakes import MISTAKES, broken


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_planted_mistake_breaks_an_invariant(mistake: type[RaftCore]) -> None:
    assert broken(mistake, MISTAKES[mistake]) is not None


@pytest.mark.parametrize("seed", sorted(set(MISTAKES.values())))
def test_correct_core_keeps_the_invariants_with_the_same_seed(seed: int) -> None:
    assert broken(RaftCore, seed) is None
