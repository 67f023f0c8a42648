"""The simulations find each mistake of the table with its seed, and nothing in the correct code."""

import logging
from pathlib import Path

import pytest

from tests.simulation.mistake_table import (
    COUNT,
    MISTAKES,
    Mistake,
    median_seeds,
    rows,
    violation_of,
)

PAGE = Path(__file__).parents[2] / "docs/testing.md"
# Several mistakes are found by the same seed. Two simulations may have one name.
SEEDS = list({(id(each.simulation), each.seed): each for each in MISTAKES}.values())


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "barnabas")


def test_table_has_every_mistake_of_the_list() -> None:
    assert {each.number for each in MISTAKES} - {None} == set(range(1, COUNT + 1))


def test_table_has_no_mistake_twice_in_a_simulation() -> None:
    assert len({each.id for each in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize("mistake", SEEDS, ids=lambda each: f"{each.simulation.name}-{each.seed}")
def test_seed_breaks_no_invariant_without_a_mistake(mistake: Mistake) -> None:
    assert violation_of(mistake.simulation, mistake.seed) == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.id)
def test_mistake_with_its_seed_breaks_the_invariant(mistake: Mistake) -> None:
    assert mistake.violation(mistake.seed).partition(":")[0] in mistake.invariants.split()


def test_median_counts_the_seeds_after_the_last_that_was_found() -> None:
    assert median_seeds([0, 1, 2, 3, 4], 300) == 1
    assert median_seeds([9, 19], 300) == 10
    assert median_seeds([], 300) == 301


def test_page_shows_the_table() -> None:
    """When it fails: `python -m tests.simulation.mistake_table --page` prints the table."""
    assert "\n".join(rows(MISTAKES)) in PAGE.read_text()
