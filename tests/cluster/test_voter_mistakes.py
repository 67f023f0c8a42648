"""The simulation finds planted mistakes in changes of the voters."""

import pytest

from tests.cluster.voter_mistakes import MISTAKES, Types, broken, name


@pytest.mark.parametrize("types", MISTAKES, ids=name)
def test_planted_mistake_breaks_an_invariant(types: Types) -> None:
    assert broken(types, MISTAKES[types]) is not None


@pytest.mark.parametrize("seed", range(12))
def test_changes_of_voters_keep_the_invariants(seed: int) -> None:
    assert broken(Types(), seed) is None
