"""Ways to plant a mistake: patches that are in force while a seed runs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

Plant = Callable[[], AbstractContextManager[object]]
"""Returns the patch of a mistake, as a context."""


def replaced(owner: object, name: str, replacement: Callable[..., Any]) -> Plant:
    """Return a plant that replaces a function; the original is passed as its first argument."""

    @contextmanager
    def plant() -> Iterator[None]:
        original = getattr(owner, name)

        def mistaken(*args: Any, **named: Any) -> Any:
            return replacement(original, *args, **named)

        with mock.patch.object(owner, name, mistaken):
            yield

    return plant


def substituted(owner: object, name: str, value: object) -> Plant:
    """Return a plant that puts another value, or class, in the place of an attribute."""
    return lambda: mock.patch.object(owner, name, value)


def replaces(owner: object, name: str) -> Callable[[Callable[..., Any]], Plant]:
    """Turn a mistaken function into the plant that puts it in the place of the correct one."""
    return lambda mistaken: replaced(owner, name, mistaken)
