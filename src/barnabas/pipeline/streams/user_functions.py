"""Calls of users' functions in kernels, whose failures end the app and name the key."""

from collections.abc import Callable
from typing import Any

from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError


def called(function: Callable[..., Any], key: bytes | None, *arguments: Any) -> Any:
    """Return a function's result for a record of a key. Raises TaskFailureError."""
    try:
        return function(*arguments)
    except Exception as error:
        name = str(getattr(function, "__qualname__", function))
        message = f"{name} raised {type(error).__name__} for key {key!r}: {error}"
        raise TaskFailureError(message, is_permanent=True) from error
