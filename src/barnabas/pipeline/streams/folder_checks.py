"""Checks of the functions of aggregates when an app is built.

Kafka Streams gives an aggregator (key, value, aggregate) and a merger (key, left, right), and
takes a function for the initial value. Functions in that order fail at the first record, or count
wrongly.
"""

import inspect
import json
from collections.abc import Callable
from typing import Any, Final

from barnabas.pipeline.streams.operator_errors import OperatorError

AGGREGATE: Final = ("aggregate", "value")
MERGE: Final = ("left", "right")


def check_initial(operator: str, initial: Any) -> None:
    """Raise OperatorError when an initial aggregate is not plain data."""
    if callable(initial):
        raise OperatorError(
            f"the initial value of {operator} is the function {_name(initial)}: give the value, "
            "such as 0, and the function after it (Kafka Streams' initializer () -> 0 is 0 here)"
        )
    try:
        json.dumps(initial)
    except (TypeError, ValueError) as error:
        raise OperatorError(
            f"the initial value of {operator} is of the type {type(initial).__name__} ({error}): "
            "use None, numbers, strings, lists and dictionaries"
        ) from error


def check_function(
    operator: str, name: str, function: object, parameters: tuple[str, str] = AGGREGATE
) -> None:
    """Raise OperatorError when a function cannot be called with two positional arguments."""
    expected = f"{name}({', '.join(parameters)})"
    if not callable(function):
        raise OperatorError(
            f"{operator} calls {expected}: {name} is {function!r}, which is not a function"
        )
    given = _signature(function)
    if given is None:
        return
    try:
        given.bind(None, None)
    except TypeError as error:
        raise OperatorError(
            f"{operator} calls {expected}, and {_name(function)} has the parameters {given}: write "
            "it with these two, without the key that Kafka Streams puts first"
        ) from error
    if tuple(given.parameters)[:2] == parameters[::-1]:
        raise OperatorError(
            f"{operator} calls {expected}, and {_name(function)} has the parameters {given}: "
            f"{parameters[0]} comes first here"
        )


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the parameters of a function, None for a built-in one without a list of them."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", function))
