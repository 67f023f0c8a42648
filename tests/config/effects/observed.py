"""The register of observations: properties and the tests that observe them.

A property counts as effective only when a test changes it and observes the difference outside of
the configuration tables: a file rolled, a connection refused, a timer fired, an answer on the wire.
"""

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., None])

# Property -> names of the tests that observe it.
OBSERVED: dict[str, list[str]] = {}
# Dynamic property -> names of the tests that change it on a running node.
OBSERVED_DYNAMICALLY: dict[str, list[str]] = {}


def observes(*names: str, dynamic: bool = False) -> Callable[[Test], Test]:
    """Register a test as the observation of these properties."""

    def register(test: Test) -> Test:
        for name in names:
            OBSERVED.setdefault(name, []).append(test.__name__)
            if dynamic:
                OBSERVED_DYNAMICALLY.setdefault(name, []).append(test.__name__)
        return test

    return register
