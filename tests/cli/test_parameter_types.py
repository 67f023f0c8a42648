"""Types of parameters refuse what clients would fail for, or wait for without end."""

import click
import pytest

from barnabas.cli.parameter_types import NAME, FiniteRange


def test_name_is_not_empty() -> None:
    assert NAME.convert("t", None, None) == "t"
    with pytest.raises(click.BadParameter, match="'' is empty, and names are not"):
        NAME.convert("", None, None)


@pytest.mark.parametrize("text", ["nan", "inf"])
def test_seconds_are_finite(text: str) -> None:
    assert FiniteRange(min=0.1).convert("0.5", None, None) == 0.5
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a finite number"):
        FiniteRange(min=0.1).convert(text, None, None)
