"""The example of docs/testing.md: a client's core, tested on the seeds of the simulation."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs/testing.md"
LostValues = Callable[[int, range], dict[int, set[bytes]]]


@pytest.fixture(scope="module")
def lost_values() -> LostValues:
    (source,) = re.findall(r"```python\n# example: simulation\n(.*?)```", PAGE.read_text(), re.S)
    names: dict[str, Any] = {}
    exec(compile(source, str(PAGE), "exec"), names)
    return names["lost_values"]


@pytest.mark.timeout(600)
def test_client_with_acks_all_loses_nothing(lost_values: LostValues) -> None:
    assert lost_values(-1, range(1, 6)) == {}


@pytest.mark.timeout(600)
def test_client_that_trusts_acks_1_is_found(lost_values: LostValues) -> None:
    # 29 finds it in two seconds; the others are for a change of the simulation.
    assert any(lost_values(1, range(seed, seed + 1)) for seed in (29, *range(16, 31)))
