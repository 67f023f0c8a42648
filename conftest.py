"""Settings for all tests."""

import gc
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# A shell may start tests in the background with SIGINT ignored, and child processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine an example may take any time.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, which then leaves out their objects.

    It finds no garbage among the half million objects of eleven thousand tests and their modules;
    to scan them repeatedly takes as long as the collection itself.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
