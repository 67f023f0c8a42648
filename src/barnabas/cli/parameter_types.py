"""Types and limits of parameters that several commands have."""

from __future__ import annotations

import math
from typing import Any, Final

import click

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class _Name(click.ParamType[str]):
    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises click.BadParameter for an empty one, which clients refuse."""
        if not value:
            self.fail("'' is empty, and names are not; is a variable of the shell unset?")
        return str(value)


NAME: Final = _Name()
"""The name of a topic, a group or another resource."""


class FiniteRange(click.FloatRange):
    """A number in a range, which is neither NaN nor infinite."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number. Raises click.BadParameter."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.")
        return number
