"""All functions that exist, and those of ksqlDB that are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions import (
    aggregate_functions,
    byte_functions,
    collection_functions,
    date_functions,
    json_functions,
    lambda_functions,
    null_functions,
    number_functions,
    pattern_functions,
    text_functions,
    url_functions,
)

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Function

_ROWS: Final = (
    *aggregate_functions.ROWS,
    *byte_functions.ROWS,
    *collection_functions.ROWS,
    *date_functions.ROWS,
    *json_functions.ROWS,
    *lambda_functions.ROWS,
    *null_functions.ROWS,
    *number_functions.ROWS,
    *pattern_functions.ROWS,
    *text_functions.ROWS,
    *url_functions.ROWS,
)

FUNCTIONS: Final[dict[str, Function]] = {each.name: each for each in _ROWS}
"""The rows by their names."""
