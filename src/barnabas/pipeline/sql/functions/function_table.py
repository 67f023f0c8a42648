"""All functions that exist, and those of ksqlDB that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions import null_functions

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Function

_ROWS: Final = (*null_functions.ROWS,)

FUNCTIONS: Final[dict[str, Function]] = {each.name: each for each in _ROWS}
"""The rows by their names."""

MISSING: Final[dict[str, str]] = {}
"""The functions of ksqlDB that do not exist here, with the reason."""
